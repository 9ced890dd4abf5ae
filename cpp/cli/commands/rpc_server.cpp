#include "cli/commands/rpc_server.h"

#include <string>

#include "cli/options.h"
#include "cli/terminal/output.h"
#include "llama/backend.h"
#include "llama/rpc_server.h"
#include "platform/cores.h"

namespace specdec::cli {

int run_rpc_server(int argc, const char* const* argv) {
  RpcAddress address = {"127.0.0.1", 50052};
  int threads = 0;
  CommandLine line;
  line.command = "specdec rpc-server";
  line.arguments = "[options]";
  line.about =
      "Runs layers of a model for another machine, on which specdec runs with --rpc HOST:PORT. Serves one client at a "
      "time; Ctrl-C stops it.\n"
      "There is no authentication and no encryption, and a client has full control of this process: use it only on "
      "trusted networks.";
  line.groups = {{"Server",
                  {text({"-H", "--host"}, "ADDRESS", address.host,
                        "address to listen on; 0.0.0.0: all addresses of this machine (default: 127.0.0.1)"),
                   integer({"-p", "--port"}, address.port, 1, 65535, "TCP port (default: 50052)"),
                   integer({"-t", "--threads"}, threads, 0, 512,
                           "threads (default: one per physical core, performance cores only)")}}};
  if (const Help help = parse(line, argc, argv).help; help != Help::none) {
    write(help_text(line, help));
    return 0;
  }
  if (!is_loopback(address)) {
    note("warning: " + address.host + " is not a loopback address: anyone who can reach port " +
         std::to_string(address.port) + " controls this process. Use it only on trusted networks\n");
  }
  serve_rpc(address, threads > 0 ? threads : default_threads());
}

}  // namespace specdec::cli
