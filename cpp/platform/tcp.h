// TCP connections over IPv4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace specdec {

using Ipv4 = std::array<std::uint8_t, 4>;  // 127.0.0.1 is {127, 0, 0, 1}

// The address of a name or of four numbers with dots. Throws Error with the reason.
Ipv4 resolve_ipv4(const std::string& host);
std::string to_text(const Ipv4& address);

class TcpConnection {
 public:
  // Throws Error with the reason. No wait of this connection is longer than patience_ms.
  TcpConnection(const Ipv4& address, int port, int patience_ms);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  // The bytes must fit into the system's buffer. Returns false if the connection is closed.
  bool send(const void* from, std::size_t bytes);
  // Waits, then reads at most `bytes` and returns how many; 0 if the connection is closed; nullopt if nothing came in
  // time.
  std::optional<std::size_t> receive(void* to, std::size_t bytes);

 private:
  bool wait_for(short events) const;

  std::intptr_t handle_;  // the system's
  int patience_ms_;
};

}  // namespace specdec
