// platform/tcp.h on Windows.
#include "platform/tcp.h"

#include <winsock2.h>
#include <ws2tcpip.h>

#include <cstring>

#include "base/error.h"
#include "platform/windows/utf16.h"

namespace specdec {
namespace {

void start_sockets() {
  static const int error = [] {
    WSADATA data;
    return WSAStartup(MAKEWORD(2, 2), &data);
  }();
  if (error != 0) throw Error(system_message(static_cast<DWORD>(error)));
}

SOCKET socket_of(std::intptr_t handle) { return static_cast<SOCKET>(handle); }

[[noreturn]] void fail(int error) { throw Error(system_message(static_cast<DWORD>(error))); }

}  // namespace

Ipv4 resolve_ipv4(const std::string& host) {
  start_sockets();
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status = getaddrinfo(host.c_str(), nullptr, &hints, &found); status != 0) fail(status);
  sockaddr_in first;
  std::memcpy(&first, found->ai_addr, sizeof first);
  freeaddrinfo(found);
  Ipv4 address;
  // Network order is the order in which addresses are written.
  std::memcpy(address.data(), &first.sin_addr, address.size());
  return address;
}

TcpConnection::TcpConnection(const Ipv4& address, int port, int patience_ms) : handle_(-1), patience_ms_(patience_ms) {
  start_sockets();
  const SOCKET connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connection == INVALID_SOCKET) fail(WSAGetLastError());
  handle_ = static_cast<std::intptr_t>(connection);
  u_long without_waiting = 1;
  ioctlsocket(connection, static_cast<long>(FIONBIO), &without_waiting);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  std::memcpy(&to.sin_addr, address.data(), address.size());
  int error = 0;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) error = WSAGetLastError();
  if (error == WSAEWOULDBLOCK) {
    int size = sizeof error;
    if (!wait_for(POLLWRNORM)) error = WSAETIMEDOUT;
    else getsockopt(connection, SOL_SOCKET, SO_ERROR, reinterpret_cast<char*>(&error), &size);
  }
  if (error == 0) return;
  closesocket(connection);
  fail(error);
}

TcpConnection::~TcpConnection() { closesocket(socket_of(handle_)); }

bool TcpConnection::wait_for(short events) const {
  WSAPOLLFD waiting = {socket_of(handle_), events, 0};
  return WSAPoll(&waiting, 1, patience_ms_) > 0;
}

bool TcpConnection::send(const void* from, std::size_t bytes) {
  return ::send(socket_of(handle_), static_cast<const char*>(from), static_cast<int>(bytes), 0) ==
         static_cast<int>(bytes);
}

std::optional<std::size_t> TcpConnection::receive(void* to, std::size_t bytes) {
  if (!wait_for(POLLRDNORM)) return std::nullopt;
  const int count = ::recv(socket_of(handle_), static_cast<char*>(to), static_cast<int>(bytes), 0);
  return count <= 0 ? 0 : static_cast<std::size_t>(count);
}

}  // namespace specdec
