// specdec bench: the speed of a target, of its MXFP6 version, and of that with a draft.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_bench();
int run_bench(int argc, const char* const* argv);

}  // namespace specdec::cli
