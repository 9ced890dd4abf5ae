// Waits for sockets. Handles are the system's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specdec {

// Many sockets at once, on one thread.
class SocketWait {
 public:
  SocketWait();  // throws Error
  ~SocketWait();
  SocketWait(const SocketWait&) = delete;
  SocketWait& operator=(const SocketWait&) = delete;

  // Any thread: ends the wait that runs, or the next one.
  void wake();
  // Waits at most so long until any of them has data, or was closed. readable: whether that is so, by index.
  void wait(const std::vector<std::intptr_t>& sockets, int timeout_ms, std::vector<bool>& readable);

 private:
  std::intptr_t wake_read_ = -1, wake_write_ = -1;
};

// One socket: whether it can be read (or written) without waiting, after at most so long.
bool can_read_socket(std::intptr_t socket, int timeout_ms);
bool can_write_socket(std::intptr_t socket, int timeout_ms);

// The system's recv() and send(), begun again after a signal.
std::ptrdiff_t receive_bytes(std::intptr_t socket, char* to, std::size_t size, int flags = 0);
std::ptrdiff_t send_bytes(std::intptr_t socket, const char* from, std::size_t size, int flags = 0);

// How many files and sockets the process may have open: as many as the system lets it ask for, up to 65536.
std::size_t open_file_limit();

}  // namespace specdec
