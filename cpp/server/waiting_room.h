// Connections wait here, all on one thread, until a complete request has arrived, so that idle and slow clients occupy
// no worker.
//
// Only a request's framing is read here (where its headers end, how long its body is), and server/border.h decides
// whether its body is waited for; the HTTP library reads the rest. A client that sends too slowly, or more than the
// room can hold, loses its connection, and so does one for which an exception is thrown.
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
#include "server/border.h"

namespace specdec::server {

// The part of a request that has arrived.
class ArrivingRequest {
 public:
  explicit ArrivingRequest(std::size_t max_body) : max_body_(max_body) {}

  void add(const char* data, std::size_t size);
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }
  std::optional<RequestHead> take_head() { return std::move(head_); }

  bool has_headers() const { return body_start_ > 0; }
  bool has_body() const { return has_body_; }
  // The request is complete, or there is enough of it for the library to reject it.
  bool is_whole() const { return is_whole_; }
  // The first line and the headers; null until they are complete, and if they are not HTTP.
  const RequestHead* head() const { return head_ ? &*head_ : nullptr; }
  // Whether the client waits for "100 Continue" before it sends the body; true only once.
  bool wants_continue() { return std::exchange(wants_continue_, false); }

 private:
  void read_headers();
  bool has_whole_body() const;

  const std::size_t max_body_;
  std::string bytes_;
  std::size_t body_start_ = 0;  // 0: the headers are not complete
  std::size_t body_size_ = 0;
  bool is_chunked_ = false, wants_continue_ = false, is_whole_ = false, has_body_ = false, needs_more_ = false;
  std::optional<RequestHead> head_;
};

struct ArrivedRequest {
  std::string bytes;  // from its first line on; may include the next request if the client did not wait
  bool has_body = false;
  bool is_whole = true;             // false: a body follows that must not be read
  std::optional<RequestHead> head;  // none: it is not HTTP, and the library says so
  std::optional<ApiError> refusal;  // the reply, if it must not be served
};

class WaitingRoom {
 public:
  struct Limits {
    std::size_t max_body = 0;
    std::chrono::seconds patience{20};  // for the headers, and until a body must arrive at min_rate
    std::chrono::seconds idle{5};       // between two requests of a connection
    std::chrono::seconds max_body_time{300};
    double min_rate = 1024;              // bytes per second
    std::size_t max_connections = 8192;  // the one idle for the longest makes room for another
    std::size_t max_bytes = 0;           // for all requests together
  };
  struct Room {
    std::function<void(std::intptr_t socket, ArrivedRequest request)> serve;  // takes the socket
    std::function<std::optional<ApiError>(const RequestHead&)> refusal;       // before its body is waited for
    std::function<void(std::intptr_t socket, const char* reply)> close;       // reply: may be empty
    std::function<void(const std::string& problem)> failed;                   // an exception ended a connection
  };

  // Throws Error.
  WaitingRoom(const Limits& limits, Room room);
  ~WaitingRoom();  // closes the connections
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  // For any thread. A connection that had a request before may have sent the beginning of the next one.
  void add(std::intptr_t socket) { add(socket, false, ""); }
  void add_again(std::intptr_t socket, std::string bytes) { add(socket, true, std::move(bytes)); }

  // Waits, at most for `longest`, until no connection's first request is still to come.
  void wait_for_new(std::chrono::milliseconds longest) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    std::intptr_t socket;
    ArrivingRequest request;
    Clock::time_point since;  // when it came or its headers were complete
    bool is_used;
    std::string bytes;        // bytes that came with it
    std::size_t counted = 0;  // of its bytes in num_bytes_
  };

  void add(std::intptr_t socket, bool is_used, std::string bytes);
  void work();
  void pass(Clock::time_point& looked);
  void admit(Guest guest);
  void receive_all(const std::vector<bool>& readable);
  void drop_slow_ones();
  // Returns false if the guest has left the room.
  bool receive(Guest& guest);
  bool guarded(Guest& guest, const std::function<bool()>& action);
  bool take(Guest& guest, const char* data, std::size_t size);
  void leave(Guest& guest, const char* reply);
  void forget(Guest& guest);
  bool is_too_slow(const Guest& guest, Clock::time_point now) const;

  const Limits limits_;
  const Room room_;
  SocketWait wait_;
  std::mutex mutex_;  // guards the next two
  std::vector<Guest> new_guests_;
  bool is_closing_ = false;
  std::list<Guest> guests_;  // used only by the thread
  std::size_t num_bytes_ = 0;
  std::atomic<int> num_new_{0};  // connections whose first request is still to come
  std::thread thread_;
};

}  // namespace specdec::server
