// specdec bench: the speed of a target and of its MXFP6 version, each without and with a draft.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_bench();
int run_bench(int argc, const char* const* argv);

}  // namespace specdec::cli
