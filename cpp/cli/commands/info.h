#pragma once

namespace specdec::cli {

// `specdec info`: the contents of a GGUF file, from its header. argv[0] is the first argument after the command.
int run_info(int argc, const char* const* argv);

}  // namespace specdec::cli
