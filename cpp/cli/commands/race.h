// specdec race: replays a target, its MXFP6 version, and that with a draft side by side, each at its measured speed.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_race();
int run_race(int argc, const char* const* argv);

}  // namespace specdec::cli
