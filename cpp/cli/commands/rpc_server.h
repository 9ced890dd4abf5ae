// specdec rpc-server: runs layers of models for other machines.
#pragma once

namespace specdec::cli {

int run_rpc_server(int argc, const char* const* argv);

}  // namespace specdec::cli
