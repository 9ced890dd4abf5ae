// platform/tcp.h on POSIX systems.
#include "platform/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

#ifndef MSG_NOSIGNAL  // older SDKs of macOS
#define MSG_NOSIGNAL 0
#endif

namespace specdec {
namespace {

int descriptor(std::intptr_t handle) { return static_cast<int>(handle); }

[[noreturn]] void fail(int error) { throw Error(std::generic_category().message(error)); }

}  // namespace

Ipv4 resolve_ipv4(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status != 0) throw Error(gai_strerror(status));
  sockaddr_in first;
  std::memcpy(&first, found->ai_addr, sizeof first);
  freeaddrinfo(found);
  Ipv4 address;
  // Network order is the order in which addresses are written.
  std::memcpy(address.data(), &first.sin_addr, address.size());
  return address;
}

TcpConnection::TcpConnection(const Ipv4& address, int port, int patience_ms)
    : handle_(socket(AF_INET, SOCK_STREAM, 0)), patience_ms_(patience_ms) {
  if (handle_ < 0) fail(errno);
  fcntl(descriptor(handle_), F_SETFL, O_NONBLOCK);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  std::memcpy(&to.sin_addr, address.data(), address.size());
  int error = 0;
  if (::connect(descriptor(handle_), reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0) error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!wait_for(POLLOUT)) error = ETIMEDOUT;
    else getsockopt(descriptor(handle_), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return;
  ::close(descriptor(handle_));
  fail(error);
}

TcpConnection::~TcpConnection() { ::close(descriptor(handle_)); }

bool TcpConnection::wait_for(short events) const {
  pollfd waiting = {descriptor(handle_), events, 0};
  int ready;
  do ready = poll(&waiting, 1, patience_ms_);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool TcpConnection::send(const void* from, std::size_t bytes) {
  return ::send(descriptor(handle_), from, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

std::optional<std::size_t> TcpConnection::receive(void* to, std::size_t bytes) {
  if (!wait_for(POLLIN)) return std::nullopt;
  const ssize_t count = ::recv(descriptor(handle_), to, bytes, 0);
  return count <= 0 ? 0 : static_cast<std::size_t>(count);
}

}  // namespace specdec
