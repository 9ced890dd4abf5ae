// platform/sockets.h on Windows, where only a socket ends a wait: wake() takes effect after a few milliseconds.
#include "platform/sockets.h"

#include <winsock2.h>

#include <algorithm>

namespace specdec {
namespace {

constexpr int longest_wait_ms = 5;

bool is_ready(std::intptr_t socket, short events, int timeout_ms) {
  WSAPOLLFD one = {static_cast<SOCKET>(socket), events, 0};
  return WSAPoll(&one, 1, timeout_ms) > 0;
}

}  // namespace

SocketWait::SocketWait() = default;
SocketWait::~SocketWait() = default;
void SocketWait::wake() {}

void SocketWait::wait(const std::vector<std::intptr_t>& sockets, int timeout_ms, std::vector<bool>& readable) {
  const int wait_ms = std::min(timeout_ms, longest_wait_ms);
  std::vector<WSAPOLLFD> polled;
  for (const std::intptr_t socket : sockets) polled.push_back({static_cast<SOCKET>(socket), POLLRDNORM, 0});
  readable.assign(sockets.size(), false);
  if (polled.empty()) return Sleep(static_cast<DWORD>(wait_ms));
  if (WSAPoll(polled.data(), static_cast<ULONG>(polled.size()), wait_ms) <= 0) return;
  for (std::size_t i = 0; i < sockets.size(); ++i) readable[i] = polled[i].revents != 0;
}

std::ptrdiff_t receive_bytes(std::intptr_t socket, char* to, std::size_t size, int flags) {
  return recv(static_cast<SOCKET>(socket), to, static_cast<int>(size), flags);
}
std::ptrdiff_t send_bytes(std::intptr_t socket, const char* from, std::size_t size, int flags) {
  return send(static_cast<SOCKET>(socket), from, static_cast<int>(size), flags);
}

bool can_read_socket(std::intptr_t socket, int timeout_ms) { return is_ready(socket, POLLRDNORM, timeout_ms); }
bool can_write_socket(std::intptr_t socket, int timeout_ms) { return is_ready(socket, POLLWRNORM, timeout_ms); }

void shutdown_sending(std::intptr_t socket) { shutdown(static_cast<SOCKET>(socket), SD_SEND); }
void close_socket(std::intptr_t socket) { closesocket(static_cast<SOCKET>(socket)); }

std::size_t open_file_limit() { return 65536; }  // sockets are not files on Windows

}  // namespace specdec
