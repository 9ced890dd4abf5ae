// Bytes as what a client sends to an RPC server after its greeting: the server answers, or drops that client, and goes
// on.
//
// The input: one byte, and then messages of u8 command, u16 length, that many bytes. Lengths are given to the server as
// u64; where the first byte is odd, the last one claims 2^64 - 1 bytes. Graphs are left out: the server computes what
// it is told to (docs/security.md).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "llama/rpc_server.h"

namespace {

constexpr std::uint8_t hello = 14, compute = 10, recompute = 16;

int port() {
  static const int number = 20000 + static_cast<int>(getpid() % 20000);
  return number;
}

int connected_socket() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int tries = 0; tries < 500; ++tries) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return client;
    close(client);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fprintf(stderr, "the server is gone\n");
  std::abort();
}

std::string length_bytes(std::uint64_t length) { return {reinterpret_cast<const char*>(&length), sizeof length}; }

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::thread([] { specdec::serve_rpc({"127.0.0.1", port()}, 1); }).detach();
  close(connected_socket());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  std::string sent = std::string(1, static_cast<char>(hello)) + length_bytes(24) + std::string(24, '\0');
  for (std::size_t at = 1; at + 3 <= size;) {
    const std::uint8_t command = input[at] % 32;
    const std::size_t asked = input[at + 1] + 256u * input[at + 2], length = std::min(asked, size - at - 3);
    const bool lies = input[0] % 2 == 1 && at + 3 + length + 3 > size;
    if (command != compute && command != recompute) {
      sent += static_cast<char>(command) + length_bytes(lies ? UINT64_MAX : length);
      sent.append(reinterpret_cast<const char*>(input) + at + 3, length);
    }
    at += 3 + length;
  }
  const int client = connected_socket();
  (void)send(client, sent.data(), sent.size(), MSG_NOSIGNAL);
  shutdown(client, SHUT_WR);
  for (char answers[4096]; recv(client, answers, sizeof answers, 0) > 0;) {  // until the server has no more to say
  }
  close(client);
  return 0;
}
