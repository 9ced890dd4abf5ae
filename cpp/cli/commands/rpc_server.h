#pragma once

namespace specdec::cli {

// `specdec rpc-server`: runs layers of models for other machines. argv[0] is the first argument after the command.
int run_rpc_server(int argc, const char* const* argv);

}  // namespace specdec::cli
