#pragma once

namespace specdec::cli {

// `specdec generate`: continues a prompt. argv[0] is the first argument after the command.
int run_generate(int argc, const char* const* argv);

}  // namespace specdec::cli
