// Where connections wait until a whole request has arrived, all on one thread: idle and slow clients take no worker.
//
// Only a request's framing is read here (where its headers end, how long its body is); the HTTP library reads the rest.
// What a client sends too slowly, or more than the room holds, ends its connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/sockets.h"

namespace specdec::server {

// What has arrived of a request.
class ArrivingRequest {
 public:
  explicit ArrivingRequest(std::size_t max_body) : max_body_(max_body) {}

  void add(const char* data, std::size_t size);
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

  bool has_headers() const { return body_start_ > 0; }
  bool has_body() const { return has_body_; }
  // All of it is here, or enough for the library to reject it.
  bool is_whole() const { return is_whole_; }
  // "POST /v1/completions HTTP/1.1" and the headers; empty before they are whole.
  std::string headers() const { return bytes_.substr(0, body_start_); }
  // The client waits for "100 Continue" before it sends the body; once.
  bool wants_continue() { return std::exchange(wants_continue_, false); }

 private:
  void read_headers();
  bool has_whole_body() const;

  const std::size_t max_body_;
  std::string bytes_;
  std::size_t body_start_ = 0;  // 0: the headers are not whole
  std::size_t body_size_ = 0;
  bool is_chunked_ = false, wants_continue_ = false, is_whole_ = false, has_body_ = false, needs_more_ = false;
};

// The value of a header among whole headers; nullopt: it is not there.
std::optional<std::string> header_value(const std::string& headers, const std::string& name);

struct ArrivedRequest {
  std::string bytes;  // from its first line on; the next request's, too, if the client did not wait
  bool has_body = false;
  bool is_whole = true;  // false: a body that is not to be read follows
};

class WaitingRoom {
 public:
  struct Limits {
    std::size_t max_body = 0;
    std::chrono::seconds patience{20};  // for the headers, and until a body must come at min_rate
    std::chrono::seconds idle{5};       // between two requests of a connection
    std::chrono::seconds max_body_time{300};
    double min_rate = 1024;              // bytes per second
    std::size_t max_connections = 8192;  // the one that is idle for the longest makes room for another
    std::size_t max_bytes = 0;           // of all requests together
  };
  struct Room {
    std::function<void(std::intptr_t socket, ArrivedRequest request)> serve;  // takes the socket
    std::function<bool(const std::string& headers)> may_send_body;            // false: it is not waited for
    std::function<void(std::intptr_t socket, const char* reply)> close;       // reply: may be empty
  };

  // Throws Error.
  WaitingRoom(const Limits& limits, Room room);
  ~WaitingRoom();  // closes the connections
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  // Any thread. A connection that had a request before may have sent the beginning of the next one.
  void add(std::intptr_t socket) { add(socket, false, ""); }
  void add_again(std::intptr_t socket, std::string bytes) { add(socket, true, std::move(bytes)); }

  // Waits until no connection is left whose first request is still to come, or for `longest`.
  void wait_for_new(std::chrono::milliseconds longest) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    std::intptr_t socket;
    ArrivingRequest request;
    Clock::time_point since;  // it came, or the headers were whole
    bool is_used;
    std::string bytes;  // that came with it
  };

  void add(std::intptr_t socket, bool is_used, std::string bytes);
  void work();
  void admit(Guest guest);
  void receive_all(const std::vector<bool>& readable);
  void drop_slow_ones();
  // False: it has left the room.
  bool receive(Guest& guest);
  bool take(Guest& guest, const char* data, std::size_t size);
  void leave(Guest& guest, const char* reply);
  bool is_too_slow(const Guest& guest, Clock::time_point now) const;

  const Limits limits_;
  const Room room_;
  SocketWait wait_;
  std::mutex mutex_;  // of the next two
  std::vector<Guest> new_guests_;
  bool is_closing_ = false;
  std::list<Guest> guests_;  // the thread's
  std::size_t num_bytes_ = 0;
  std::atomic<int> num_new_{0};  // connections whose first request is still to come
  std::thread thread_;
};

}  // namespace specdec::server
