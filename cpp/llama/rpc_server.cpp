#include "llama/rpc_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "ggml-backend.h"
#include "ggml-rpc.h"
#include "llama.h"
#include "llama/backend.h"

namespace specdec {
namespace {

constexpr int patience_ms = 5000;  // for a connection, and for the answer to the first message

[[noreturn]] void fail(const std::string& address, const std::string& what) { throw ModelError("RPC server " + address + ": " + what); }

std::string to_text(const RpcAddress& address) { return address.host + ":" + std::to_string(address.port); }

sockaddr_in resolve(const RpcAddress& address) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (status != 0) fail(to_text(address), std::string("no such host: ") + gai_strerror(status));
  sockaddr_in result;
  std::memcpy(&result, found->ai_addr, sizeof(result));
  freeaddrinfo(found);
  result.sin_port = htons(static_cast<std::uint16_t>(address.port));
  return result;
}

class Socket {
 public:
  Socket() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "socket");
    fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }
  ~Socket() { close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }
  bool wait_for(short events) const {
    pollfd waiting = {descriptor_, events, 0};
    int ready;
    do ready = poll(&waiting, 1, patience_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

 private:
  int descriptor_;
};

void connect_socket(const Socket& socket, const RpcAddress& address) {
  const sockaddr_in to = resolve(address);
  int error = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) < 0) error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof(error);
    if (!socket.wait_for(POLLOUT)) error = ETIMEDOUT;
    else getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    fail(to_text(address), "cannot connect: " + std::generic_category().message(error) +
                               ". Is `specdec rpc-server` running there, with a --host that other machines reach?");
  }
}

#ifndef MSG_NOSIGNAL  // older SDKs of macOS
#define MSG_NOSIGNAL 0
#endif

// Checks the connection first, because ggml's client would hang or abort. The first message, little-endian:
//   request:  u8 command (14), u64 size (24), 24 bytes of capabilities, zeros: TCP only
//   response: u64 size (28), u8 major, minor, patch, padding, 24 bytes of capabilities
void say_hello(const RpcAddress& address) {
  constexpr std::size_t capabilities = 24;
  const Socket socket;
  connect_socket(socket, address);
  std::array<std::uint8_t, 1 + 8 + capabilities> request = {14, capabilities};
  std::array<std::uint8_t, 8 + 4 + capabilities> response = {};
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    fail(to_text(address), "the connection closed at once. Is that a ggml RPC server?");
  }
  for (std::size_t received = 0; received < response.size();) {
    if (!socket.wait_for(POLLIN)) {
      fail(to_text(address),
           "it accepts connections but does not answer: it may have another client (it serves one at a time), "
           "or not be a ggml RPC server");
    }
    const ssize_t count = recv(socket.get(), response.data() + received, response.size() - received, 0);
    if (count <= 0) fail(to_text(address), "it closed the connection: it is not a ggml RPC server, or has another version");
    received += static_cast<std::size_t>(count);
  }
  const int major = response[8], minor = response[9];
  if (response[0] != 4 + capabilities || major != RPC_PROTO_MAJOR_VERSION || minor > RPC_PROTO_MINOR_VERSION) {
    fail(to_text(address), "it has version " + std::to_string(major) + "." + std::to_string(minor) + " of the protocol, this program " +
                               std::to_string(RPC_PROTO_MAJOR_VERSION) + "." + std::to_string(RPC_PROTO_MINOR_VERSION) +
                               ". Run the same version on both sides");
  }
}

}  // namespace

RpcAddress RpcAddress::parse(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (colon == 0 || digits.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535) {
    throw std::invalid_argument("RPC server \"" + text + "\": expected HOST:PORT, a name or IPv4 address and 1 to 65535");
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
      for (ggml_backend_device* device : devices_) ggml_backend_dev_buffer_type(device);  // asked for and kept by ggml
    }
  } catch (const std::runtime_error& error) {
    fail(address, std::string("cannot be used: ") + error.what());
  }
  if (!connection_) fail(address, "it offers no device: " + take_backend_errors());
}

void RpcServer::check() const {
  if (!specdec_rpc_is_lost(address_.c_str())) return;
  fail(address_,
       "it closed the connection, and the state of its layers is lost. Delete every Generator that uses it, restart the server, "
       "then load the models again");
}

void serve_rpc(const RpcAddress& address, int num_threads) {
  start_backend();
  // ggml's server has no caller to report errors to: it writes them to standard error.
  llama_log_set(nullptr, nullptr);
  ggml_set_abort_callback(nullptr);
  std::array<char, INET_ADDRSTRLEN> numeric = {};
  const in_addr ip = resolve(address).sin_addr;
  inet_ntop(AF_INET, &ip, numeric.data(), numeric.size());
  const std::string endpoint = std::string(numeric.data()) + ":" + std::to_string(address.port);
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_rpc_start_server(endpoint.c_str(), nullptr, static_cast<std::size_t>(num_threads), 1, &cpu);
  throw Error("cannot listen on " + endpoint + ": the port is in use, or the address is not one of this machine");
}

bool is_loopback(const RpcAddress& address) { return ntohl(resolve(address).sin_addr.s_addr) >> 24 == 127; }

}  // namespace specdec
