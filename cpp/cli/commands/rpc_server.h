#pragma once

namespace specdec::cli {

// `specdec rpc-server`: runs layers of models that other machines generate with. argv[0] is the first argument after it.
int run_rpc_server(int argc, const char* const* argv);

}  // namespace specdec::cli
