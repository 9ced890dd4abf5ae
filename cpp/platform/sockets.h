// Waits for sockets. Handles are the operating system's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specdec {

// Waits for many sockets at once on one thread.
class SocketWait {
 public:
  SocketWait();  // throws Error
  ~SocketWait();
  SocketWait(const SocketWait&) = delete;
  SocketWait& operator=(const SocketWait&) = delete;

  // Ends the running wait, or the next one. For any thread.
  void wake();
  // Waits, at most timeout_ms, until any socket has data or was closed. readable: whether this is so, by index.
  void wait(const std::vector<std::intptr_t>& sockets, int timeout_ms, std::vector<bool>& readable);

 private:
  std::intptr_t wake_read_ = -1, wake_write_ = -1;
};

// Waits at most timeout_ms and returns whether the socket can be read (or written) without blocking.
bool can_read_socket(std::intptr_t socket, int timeout_ms);
bool can_write_socket(std::intptr_t socket, int timeout_ms);

// The system's recv() and send(), repeated after a signal.
std::ptrdiff_t receive_bytes(std::intptr_t socket, char* to, std::size_t size, int flags = 0);
std::ptrdiff_t send_bytes(std::intptr_t socket, const char* from, std::size_t size, int flags = 0);

// Tells the other side that nothing more comes; what it sends can still be read.
void shutdown_sending(std::intptr_t socket);
void close_socket(std::intptr_t socket);

// How many files and sockets the process may have open; raised as far as the system allows, up to 65536.
std::size_t open_file_limit();

}  // namespace specdec
