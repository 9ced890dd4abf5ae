#pragma once

namespace specdec::cli {

// `specdec info`: what a GGUF file holds, read from its header alone. argv[0] is the first argument after the command.
int run_info(int argc, const char* const* argv);

}  // namespace specdec::cli
