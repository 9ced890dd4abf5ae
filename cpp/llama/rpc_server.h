// Layers of a model on other machines, over ggml's RPC backend: connections to servers, and serving.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct ggml_backend;
struct ggml_backend_device;

namespace specdec {

// HOST:PORT, the host a name or an IPv4 address: the protocol knows no other.
struct RpcAddress {
  std::string host;
  int port;

  static RpcAddress parse(const std::string& text);  // throws std::invalid_argument
};

// A connection that all models of this process on that server share; it closes with the last of them.
class RpcServer {
 public:
  // Throws ModelError when the server cannot be reached, does not answer, or speaks another version.
  static std::shared_ptr<RpcServer> connect(const std::string& address);

  const std::vector<ggml_backend_device*>& devices() const { return devices_; }
  // Throws ModelError once the server has closed the connection; from then on ggml reads zeros from it.
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

// Lends this machine's processor, with our kernels, to clients one after another; ends only when it cannot listen, with Error.
// There is no authentication, and a client can make the server crash or worse.
[[noreturn]] void serve_rpc(const RpcAddress& address, int num_threads);

// Whether an address means this machine only.
bool is_loopback(const RpcAddress& address);

}  // namespace specdec
