// specdec quantize: writes a GGUF model with MXFP6 weights.
#pragma once

namespace specdec::cli {

int run_quantize(int argc, const char* const* argv);

}  // namespace specdec::cli
