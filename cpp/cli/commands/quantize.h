#pragma once

namespace specdec::cli {

// `specdec quantize`: a GGUF model's weights to MXFP6, into a new file. argv[0] is the first argument after the command.
int run_quantize(int argc, const char* const* argv);

}  // namespace specdec::cli
