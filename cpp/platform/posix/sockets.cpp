// platform/sockets.h on POSIX systems.
#include "platform/sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace specdec {
namespace {

// Repeats a call while a signal interrupts it.
template <class Call>
auto until_done(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

bool is_ready(std::intptr_t socket, short events, int timeout_ms) {
  pollfd one = {static_cast<int>(socket), events, 0};
  return until_done([&] { return poll(&one, 1, timeout_ms); }) > 0;
}

}  // namespace

SocketWait::SocketWait() {
  int ends[2];
  if (pipe(ends) != 0) throw Error("cannot make a pipe: the system has a limit of open files; raise it (ulimit -n)");
  for (const int end : ends) {
    fcntl(end, F_SETFD, FD_CLOEXEC);
    fcntl(end, F_SETFL, O_NONBLOCK);
  }
  wake_read_ = ends[0];
  wake_write_ = ends[1];
}

SocketWait::~SocketWait() {
  close(static_cast<int>(wake_read_));
  close(static_cast<int>(wake_write_));
}

void SocketWait::wake() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(static_cast<int>(wake_write_), &byte, 1);  // a full pipe also wakes
}

void SocketWait::wait(const std::vector<std::intptr_t>& sockets, int timeout_ms, std::vector<bool>& readable) {
  std::vector<pollfd> polled = {{static_cast<int>(wake_read_), POLLIN, 0}};
  for (const std::intptr_t socket : sockets) polled.push_back({static_cast<int>(socket), POLLIN, 0});
  readable.assign(sockets.size(), false);
  if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return;
  char bytes[256];
  while (polled[0].revents != 0 && read(static_cast<int>(wake_read_), bytes, sizeof bytes) == sizeof bytes) {
  }
  for (std::size_t i = 0; i < sockets.size(); ++i) readable[i] = polled[i + 1].revents != 0;
}

std::ptrdiff_t receive_bytes(std::intptr_t socket, char* to, std::size_t size, int flags) {
  return until_done([&] { return recv(static_cast<int>(socket), to, size, flags); });
}
std::ptrdiff_t send_bytes(std::intptr_t socket, const char* from, std::size_t size, int flags) {
  return until_done([&] { return send(static_cast<int>(socket), from, size, flags); });
}

bool can_read_socket(std::intptr_t socket, int timeout_ms) { return is_ready(socket, POLLIN, timeout_ms); }
bool can_write_socket(std::intptr_t socket, int timeout_ms) { return is_ready(socket, POLLOUT, timeout_ms); }

void shutdown_sending(std::intptr_t socket) { shutdown(static_cast<int>(socket), SHUT_WR); }
void close_socket(std::intptr_t socket) { close(static_cast<int>(socket)); }

std::size_t open_file_limit() {
  constexpr rlim_t wanted = 65536;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  rlimit raised = limit;
  raised.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, wanted));
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<std::size_t>(std::min(limit.rlim_cur, wanted));
}

}  // namespace specdec
