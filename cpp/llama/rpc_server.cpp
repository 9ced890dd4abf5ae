#include "llama/rpc_server.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "ggml-backend.h"
#include "ggml-rpc.h"
#include "llama.h"
#include "llama/backend.h"
#include "platform/console.h"
#include "platform/tcp.h"

namespace specdec {
namespace {

constexpr int patience_ms = 5000;  // for a connection, and for the answer to the first message

[[noreturn]] void fail(const std::string& address, const std::string& what) {
  throw ModelError("RPC server " + address + ": " + what);
}

std::string to_text(const RpcAddress& address) { return address.host + ":" + std::to_string(address.port); }

Ipv4 resolve(const RpcAddress& address) {
  try {
    return resolve_ipv4(address.host);
  } catch (const Error& error) {
    fail(to_text(address), std::string("no such host: ") + error.what());
  }
}

std::unique_ptr<TcpConnection> connect_to(const RpcAddress& address) {
  const Ipv4 ip = resolve(address);
  try {
    return std::make_unique<TcpConnection>(ip, address.port, patience_ms);
  } catch (const Error& error) {
    fail(to_text(address), std::string("cannot connect: ") + error.what() +
                               ". Is `specdec rpc-server` running there, with a --host that other machines reach?");
  }
}

// Checks the connection first, because ggml's client would hang or abort. The first message, little-endian:
//   request:  u8 command (14), u64 size (24), 24 bytes of capabilities, zeros: TCP only
//   response: u64 size (28), u8 major, minor, patch, padding, 24 bytes of capabilities
void say_hello(const RpcAddress& address) {
  constexpr std::size_t capabilities = 24;
  const std::unique_ptr<TcpConnection> connection = connect_to(address);
  std::array<std::uint8_t, 1 + 8 + capabilities> request = {14, capabilities};
  std::array<std::uint8_t, 8 + 4 + capabilities> response = {};
  if (!connection->send(request.data(), request.size())) {
    fail(to_text(address), "the connection closed at once. Is that a ggml RPC server?");
  }
  for (std::size_t received = 0; received < response.size();) {
    const std::optional<std::size_t> count =
        connection->receive(response.data() + received, response.size() - received);
    if (!count) {
      fail(to_text(address),
           "it accepts connections but does not answer: it may have another client (it serves one at a time), "
           "or not be a ggml RPC server");
    }
    if (*count == 0)
      fail(to_text(address), "it closed the connection: it is not a ggml RPC server, or has another version");
    received += *count;
  }
  const int major = response[8], minor = response[9];
  if (response[0] != 4 + capabilities || major != RPC_PROTO_MAJOR_VERSION || minor > RPC_PROTO_MINOR_VERSION) {
    fail(to_text(address), "it has version " + std::to_string(major) + "." + std::to_string(minor) +
                               " of the protocol, this program " + std::to_string(RPC_PROTO_MAJOR_VERSION) + "." +
                               std::to_string(RPC_PROTO_MINOR_VERSION) + ". Run the same version on both sides");
  }
}

}  // namespace

RpcAddress RpcAddress::parse(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (colon == 0 || digits.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 ||
      port > 65535) {
    throw std::invalid_argument("RPC server \"" + text +
                                "\": expected HOST:PORT, a name or IPv4 address and 1 to 65535");
  }
  return {text.substr(0, colon), port};
}

void RpcServer::Free::operator()(ggml_backend* backend) const { ggml_backend_free(backend); }

std::shared_ptr<RpcServer> RpcServer::connect(const std::string& address) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::weak_ptr<RpcServer>> connected;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<RpcServer>& known = connected[address];
  if (const std::shared_ptr<RpcServer> server = known.lock()) {
    server->check();
    return server;
  }
  const std::shared_ptr<RpcServer> server(new RpcServer(address));
  known = server;
  return server;
}

RpcServer::RpcServer(const std::string& address) : address_(address) {
  say_hello(RpcAddress::parse(address));
  start_backend();
  take_backend_errors();
  try {
    const AbortsAsErrors guard;
    if (const ggml_backend_reg_t registry = ggml_backend_rpc_add_server(address.c_str())) {
      for (std::size_t i = 0; i < ggml_backend_reg_dev_count(registry); ++i) {
        devices_.push_back(ggml_backend_reg_dev_get(registry, i));
      }
      connection_.reset(ggml_backend_dev_init(devices_.front(), nullptr));
      for (ggml_backend_device* device : devices_)
        // ggml asks the server once and keeps the answer.
        ggml_backend_dev_buffer_type(device);
    }
  } catch (const std::runtime_error& error) {
    fail(address, std::string("cannot be used: ") + error.what());
  }
  if (!connection_) fail(address, "it offers no device: " + take_backend_errors());
}

void RpcServer::check() const {
  if (!specdec_rpc_is_lost(address_.c_str())) return;
  fail(address_,
       "it closed the connection, and the state of its layers is lost. Delete every Generator that uses it, restart "
       "the server, then load the models again");
}

void serve_rpc(const RpcAddress& address, int num_threads) {
  start_backend();
  // ggml's server has no caller to report errors to: it writes them to standard error.
  llama_log_set(nullptr, nullptr);
  ggml_set_abort_callback(nullptr);
  const std::string endpoint = to_text(resolve(address)) + ":" + std::to_string(address.port);
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  // An exception is caused by a client's message, such as one that claims 2^64 - 1 bytes; the client's connection and
  // buffers are gone by then.
  for (bool has_returned = false; !has_returned;) {
    try {
      ggml_backend_rpc_start_server(endpoint.c_str(), nullptr, idx(num_threads), 1, &cpu);
      has_returned = true;
    } catch (const std::exception& error) {
      (void)write_to(
          StandardStream::error,
          std::string("specdec rpc-server: dropped a client because of an invalid message: ") + error.what() + "\n");
    }
  }
  throw Error("cannot listen on " + endpoint + ": the port is in use, or the address is not one of this machine");
}

bool is_loopback(const RpcAddress& address) { return resolve(address)[0] == 127; }

}  // namespace specdec
