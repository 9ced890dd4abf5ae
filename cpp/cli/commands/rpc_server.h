// specdec rpc-server: runs layers of models for other machines.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_rpc_server();
int run_rpc_server(int argc, const char* const* argv);

}  // namespace specdec::cli
