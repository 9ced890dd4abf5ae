#include "cli/commands/rpc_server.h"

#include <string>

#include "cli/options.h"
#include "cli/terminal/output.h"
#include "llama/backend.h"
#include "llama/rpc_server.h"
#include "platform/cores.h"

namespace specdec::cli {

namespace {

struct RpcServerArguments {
  RpcAddress address = {"127.0.0.1", 50052};
  int threads = 0;
};

CommandLine command_line(RpcServerArguments& arguments) {
  CommandLine line;
  line.command = "specdec rpc-server";
  line.arguments = "[options]";
  line.about =
      "Runs layers of a model for another machine, on which specdec runs with --rpc HOST:PORT. Serves one client at a "
      "time; Ctrl-C stops it.\n"
      "There is no authentication and no encryption, and a client has full control of this process: use it only on "
      "trusted networks.";
  line.groups = {{"Server",
                  {text({"-H", "--host"}, "ADDRESS", arguments.address.host,
                        "address to listen on; 0.0.0.0: all addresses of this machine (default: 127.0.0.1)"),
                   integer({"-p", "--port"}, arguments.address.port, 1, 65535, "TCP port (default: 50052)"),
                   integer({"-t", "--threads"}, arguments.threads, 0, 512,
                           "threads (default: one per physical core, performance cores only)")}}};
  return line;
}

}  // namespace

CommandLine describe_rpc_server() {
  static RpcServerArguments arguments;
  return command_line(arguments);
}

int run_rpc_server(int argc, const char* const* argv) {
  RpcServerArguments arguments;
  const CommandLine line = command_line(arguments);
  if (!parse(line, argc, argv)) return 0;
  const RpcAddress& address = arguments.address;
  if (!is_loopback(address)) {
    note("warning: " + address.host + " is not a loopback address: anyone who can reach port " +
         std::to_string(address.port) + " controls this process. Use it only on trusted networks\n");
  }
  serve_rpc(address, arguments.threads > 0 ? arguments.threads : default_threads());
}

}  // namespace specdec::cli
