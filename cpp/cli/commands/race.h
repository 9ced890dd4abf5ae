// specdec race: replays a target and its MXFP6 version, each without and with a draft, side by side at their measured
// speeds.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_race();
int run_race(int argc, const char* const* argv);

}  // namespace specdec::cli
