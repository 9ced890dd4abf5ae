// specdec quantize: writes a GGUF model with MXFP6 weights.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_quantize();
int run_quantize(int argc, const char* const* argv);

}  // namespace specdec::cli
