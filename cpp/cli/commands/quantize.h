#pragma once

namespace specdec::cli {

// `specdec quantize`: writes a GGUF model with MXFP6 weights. argv[0] is the first argument after the command.
int run_quantize(int argc, const char* const* argv);

}  // namespace specdec::cli
