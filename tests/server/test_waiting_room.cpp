// The limits of the waiting room: memory, time and number of its connections; and exceptions, which end one connection.
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "check.h"
#include "server/waiting_room.h"

#ifndef _WIN32
#include <sys/socket.h>
#include <unistd.h>
#endif

using specdec::server::ApiError;
using specdec::server::ArrivedRequest;
using specdec::server::RequestHead;
using specdec::server::WaitingRoom;

#ifndef _WIN32

namespace {

const std::string head = "POST /a HTTP/1.1\r\nContent-Length: 5000\r\n\r\n";

// A room whose connections are the ends of pairs of sockets.
class Visit {
 public:
  explicit Visit(const WaitingRoom::Limits& limits)
      : room_(limits, {[this](std::intptr_t socket, const ArrivedRequest& request) { serve(socket, request); },
                       [this](const RequestHead& request) { return refusal(request); },
                       [this](std::intptr_t socket, const char* reply) { end(socket, reply); },
                       [this](const std::string& problem) { fail(problem); }}) {}

  // A new guest that has sent this; returns its other end.
  int enter(const std::string& bytes) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(::send(ends[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    last_ = ends[0];
    room_.add(ends[0]);
    return ends[1];
  }
  int last() const { return last_; }

  // What the guest at this end was told when it left; waits until it does. "served" if its request was complete.
  std::string told(int socket) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return told_.count(socket) > 0; });
    const std::string text = told_[socket];
    told_.erase(socket);
    close(socket);
    return text;
  }
  bool is_told(int socket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return told_.count(socket) > 0;
  }
  int num_failures() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return num_failures_;
  }

 private:
  void tell(std::intptr_t socket, const std::string& text) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_[static_cast<int>(socket)] = text;
    }
    changed_.notify_all();
  }
  void serve(std::intptr_t socket, const ArrivedRequest& request) {
    if (request.head && request.head->path == "/throw") throw std::runtime_error("cannot serve");
    tell(socket, request.refusal ? "refused" : "served");
  }
  static std::optional<ApiError> refusal(const RequestHead& request) {
    if (request.path == "/throw-early") throw 1;
    if (request.path != "/refused") return std::nullopt;
    return ApiError(403, "permission_error", "no");
  }
  void end(std::intptr_t socket, const char* reply) { tell(socket, std::string("left ") + reply); }
  void fail(const std::string&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++num_failures_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::string> told_;
  int num_failures_ = 0;
  int last_ = -1;
  WaitingRoom room_;  // destroyed first
};

WaitingRoom::Limits roomy() {
  WaitingRoom::Limits limits;
  limits.max_body = 10000;
  limits.max_bytes = 100000;
  limits.patience = limits.idle = limits.max_body_time = std::chrono::seconds(3600);
  return limits;
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

}  // namespace

TEST(a_complete_request_is_served_and_a_refused_one_does_not_wait_for_its_body) {
  Visit visit(roomy());
  visit.enter("GET /a HTTP/1.1\r\n\r\n");
  CHECK(visit.told(visit.last()) == "served");
  visit.enter(head + std::string(5000, 'a'));
  CHECK(visit.told(visit.last()) == "served");
  visit.enter("POST /refused HTTP/1.1\r\nContent-Length: 5000\r\n\r\n");
  CHECK(visit.told(visit.last()) == "refused");
}

TEST(a_body_in_chunks_waits_for_the_last_one) {
  Visit visit(roomy());
  const int guest = visit.enter("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  const int room = visit.last();
  visit.enter("GET /a HTTP/1.1\r\n\r\n");
  CHECK(visit.told(visit.last()) == "served" && !visit.is_told(room));
  CHECK(::send(guest, "0\r\n\r\n", 5, 0) == 5);
  CHECK(visit.told(room) == "served");
}

TEST(memory) {
  WaitingRoom::Limits limits = roomy();
  limits.max_bytes = 6000;
  Visit visit(limits);
  visit.enter(head + std::string(2500, 'a'));
  const int first = visit.last();
  visit.enter(head + std::string(2500, 'a'));
  const int second = visit.last();
  CHECK(!visit.is_told(first) && !visit.is_told(second));
  visit.enter(head + std::string(2500, 'a'));  // too much for all together
  CHECK(begins_with(visit.told(visit.last()), "left HTTP/1.1 503"));
  for (int round = 0; round < 10; ++round) {  // what has left counts no more
    visit.enter(head + std::string(2500, 'a'));
    CHECK(begins_with(visit.told(visit.last()), "left HTTP/1.1 503"));
    visit.enter("GET /a HTTP/1.1\r\n\r\n");
    CHECK(visit.told(visit.last()) == "served");
  }
  CHECK(!visit.is_told(first) && !visit.is_told(second));
}

TEST(time) {
  WaitingRoom::Limits limits = roomy();
  limits.max_body_time = std::chrono::seconds(1);
  Visit slow(limits);
  slow.enter(head + "a");
  CHECK(begins_with(slow.told(slow.last()), "left HTTP/1.1 408"));
  limits = roomy();
  limits.patience = std::chrono::seconds(1);
  Visit impatient(limits);
  impatient.enter("POST /a HT");
  CHECK(begins_with(impatient.told(impatient.last()), "left HTTP/1.1 408"));
  impatient.enter("");
  CHECK(impatient.told(impatient.last()) == "left ");
  limits.patience = std::chrono::seconds(0);
  limits.min_rate = 1e9;  // a body at less than that
  Visit fast(limits);
  fast.enter(head + "a");
  CHECK(begins_with(fast.told(fast.last()), "left HTTP/1.1 408"));
}

TEST(number) {
  WaitingRoom::Limits limits = roomy();
  limits.max_connections = 2;
  Visit visit(limits);
  visit.enter("");
  const int idle = visit.last();
  visit.enter(head);
  const int sending = visit.last();
  visit.enter("POST /a");  // takes the place of the idle one
  const int third = visit.last();
  CHECK(visit.told(idle) == "left ");
  visit.enter("POST /a");  // all others have sent something, perhaps after a moment
  const std::string told = visit.told(visit.last());
  CHECK(begins_with(told, "left HTTP/1.1 503"));
  CHECK(!visit.is_told(sending) && !visit.is_told(third));
}

TEST(an_exception_ends_one_connection) {
  Visit visit(roomy());
  visit.enter(head);
  const int other = visit.last();
  for (int round = 1; round <= 3; ++round) {
    visit.enter("GET /throw HTTP/1.1\r\n\r\n");
    CHECK(visit.told(visit.last()) == "left ");
    visit.enter("GET /throw-early HTTP/1.1\r\n\r\n");
    CHECK(visit.told(visit.last()) == "left ");
    CHECK(visit.num_failures() == 2 * round);
    visit.enter("GET /a HTTP/1.1\r\n\r\n");
    CHECK(visit.told(visit.last()) == "served");
  }
  CHECK(!visit.is_told(other));
}

#endif

TEST_MAIN()
