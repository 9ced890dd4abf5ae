#pragma once

namespace specdec::cli {

// `specdec generate`: a prompt in, its continuation out. argv[0] is the first argument after the command.
int run_generate(int argc, const char* const* argv);

}  // namespace specdec::cli
