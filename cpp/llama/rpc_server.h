// Runs layers of a model on other machines with ggml's RPC backend: connections to servers, and the server.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct ggml_backend;
struct ggml_backend_device;

namespace specdec {

// HOST:PORT; the host is a name or an IPv4 address, as ggml's protocol requires.
struct RpcAddress {
  std::string host;
  int port;

  static RpcAddress parse(const std::string& text);  // throws std::invalid_argument
};

// A connection shared by all models of this process that use the server; it is closed with the last of them.
class RpcServer {
 public:
  // Throws ModelError if the server cannot be reached, does not answer, or has another protocol version.
  static std::shared_ptr<RpcServer> connect(const std::string& address);

  const std::vector<ggml_backend_device*>& devices() const { return devices_; }
  // Throws ModelError once the server has closed the connection; after that, ggml reads zeros from it.
  void check() const;

 private:
  struct Free {
    void operator()(ggml_backend* backend) const;
  };
  explicit RpcServer(const std::string& address);

  std::string address_;
  std::vector<ggml_backend_device*> devices_;       // owned by ggml, for the life of the process
  std::unique_ptr<ggml_backend, Free> connection_;  // keeps ggml's connection open while no model uses it
};

// Serves clients one after another with this machine's CPU and our kernels. Returns only by throwing Error if it cannot
// listen. There is no authentication, and a client can crash the server or run code in it.
[[noreturn]] void serve_rpc(const RpcAddress& address, int num_threads);

// Whether the address is reachable only from this machine.
bool is_loopback(const RpcAddress& address);

}  // namespace specdec
