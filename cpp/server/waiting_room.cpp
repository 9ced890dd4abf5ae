#include "server/waiting_room.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "httplib.h"
#include "server/http_server.h"

namespace specdec::server {
namespace {

constexpr std::size_t max_headers = 64u << 10;  // the library rejects longer ones
constexpr int tick_ms = 250;                    // how often slow clients are searched for
constexpr const char* too_slow =
    "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 113\r\n\r\n"
    "{\"error\":{\"message\":\"the request did not arrive in "
    "time\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":408}}";
constexpr const char* no_room =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
constexpr const char* go_on = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

void ArrivingRequest::add(const char* data, std::size_t size) {
  const std::size_t from = bytes_.size() - std::min<std::size_t>(bytes_.size(), 3);
  bytes_.append(data, size);
  if (!has_headers()) {
    const std::size_t end = bytes_.find("\r\n\r\n", from), bare_end = bytes_.find("\n\n", from);
    if (end == std::string::npos && bare_end == std::string::npos) {
      is_whole_ = bytes_.size() > max_headers;
      return;
    }
    body_start_ = end < bare_end ? end + 4 : bare_end + 2;
    read_headers();
  }
  is_whole_ = !needs_more_ || has_whole_body();
}

// A request with unclear framing, or none, counts as complete; it is rejected.
void ArrivingRequest::read_headers() {
  head_ = parse_head(bytes_.substr(0, body_start_));
  if (!head_) return;
  Framing framing;
  try {
    framing = read_framing(*head_);
  } catch (const ApiError&) {  // Border::refusal() has the same error
    return;
  }
  is_chunked_ = framing.is_chunked;
  body_size_ = framing.body_size;
  has_body_ = is_chunked_ || body_size_ > 0;
  needs_more_ = is_chunked_ || (body_size_ > 0 && body_size_ <= max_body_);
  wants_continue_ = needs_more_ && framing.expects_continue;
  if (!wants_continue_) return;
  const std::size_t line = lower_case(bytes_.substr(0, body_start_)).find("\nexpect:") + 1,
                    next = bytes_.find('\n', line) + 1;
  bytes_.erase(line, next - line);  // otherwise the library would ask for the body again
  body_start_ -= next - line;
}

bool ArrivingRequest::has_whole_body() const {
  const std::size_t size = bytes_.size() - body_start_;
  if (!is_chunked_) return size >= body_size_;
  if (size > max_body_ + max_body_ / 2) return true;  // too large, including framing
  const auto ends_with = [&](const char* text, std::size_t length) {
    return size >= length && bytes_.compare(bytes_.size() - length, length, text) == 0;
  };
  const bool is_empty = bytes_.compare(body_start_, 3, "0\r\n") == 0;
  return ends_with("\r\n\r\n", 4) && (is_empty || bytes_.rfind("\r\n0") >= body_start_);
}

WaitingRoom::WaitingRoom(const Limits& limits, Room room) : limits_(limits), room_(std::move(room)) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    throw Error(too_few_threads);
  }
}

WaitingRoom::~WaitingRoom() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
  }
  wait_.wake();
  thread_.join();
}

void WaitingRoom::wait_for_new(std::chrono::milliseconds longest) const {
  const Clock::time_point end = Clock::now() + longest;
  while (num_new_ > 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void WaitingRoom::add(std::intptr_t socket, bool is_used, std::string bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    new_guests_.push_back({socket, ArrivingRequest(limits_.max_body), Clock::now(), is_used, std::move(bytes), 0});
    if (!is_used) ++num_new_;
  }
  wait_.wake();
}

void WaitingRoom::work() {
  Clock::time_point looked = Clock::now();
  for (bool is_closing = false; !is_closing;) {
    try {
      pass(looked);
    } catch (const std::exception& error) {  // no memory for the lists
      room_.failed(error.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(tick_ms));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closing = is_closing_;
  }
  for (Guest& guest : guests_) leave(guest, "");
  for (Guest& guest : new_guests_) leave(guest, "");
}

// Waits for data, receives it, and admits new guests.
void WaitingRoom::pass(Clock::time_point& looked) {
  std::vector<std::intptr_t> sockets;
  std::vector<bool> readable;
  for (const Guest& guest : guests_) sockets.push_back(guest.socket);
  wait_.wait(sockets, tick_ms, readable);
  receive_all(readable);
  if (Clock::now() - looked > std::chrono::milliseconds(tick_ms)) {
    looked = Clock::now();
    drop_slow_ones();
  }
  std::vector<Guest> arrived;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    arrived.swap(new_guests_);
  }
  for (Guest& guest : arrived) admit(std::move(guest));
}

// An exception ends only this guest's connection; then returns false.
bool WaitingRoom::guarded(Guest& guest, const std::function<bool()>& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    room_.failed(error.what());
  } catch (...) {
    room_.failed("an unknown C++ exception");
  }
  leave(guest, "");
  return false;
}

void WaitingRoom::admit(Guest guest) {
  if (guests_.size() >= limits_.max_connections) {
    const auto idle =
        std::find_if(guests_.begin(), guests_.end(), [](const Guest& other) { return other.request.bytes().empty(); });
    if (idle == guests_.end()) return leave(guest, no_room);
    leave(*idle, "");
    guests_.erase(idle);
  }
  const std::string bytes = std::move(guest.bytes);
  if (!guarded(guest, [&] { return guests_.push_back(guest), true; })) return;
  Guest& entered = guests_.back();
  const auto take_all = [&] { return bytes.empty() || take(entered, bytes.data(), bytes.size()); };
  if (!guarded(entered, take_all)) guests_.pop_back();
}

void WaitingRoom::receive_all(const std::vector<bool>& readable) {
  std::size_t i = 0;
  for (auto guest = guests_.begin(); guest != guests_.end(); ++i) {
    const bool stays = !readable[i] || guarded(*guest, [&] { return receive(*guest); });
    guest = stays ? std::next(guest) : guests_.erase(guest);
  }
}

void WaitingRoom::drop_slow_ones() {
  const Clock::time_point now = Clock::now();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const bool is_slow = is_too_slow(*guest, now);
    if (is_slow) leave(*guest, guest->request.bytes().empty() ? "" : too_slow);
    guest = is_slow ? guests_.erase(guest) : std::next(guest);
  }
}

bool WaitingRoom::receive(Guest& guest) {
  char data[16384];
  const auto size = receive_bytes(guest.socket, data, sizeof data);
  if (size > 0) return take(guest, data, idx(size));
  leave(guest, "");
  return false;
}

void WaitingRoom::leave(Guest& guest, const char* reply) {
  forget(guest);
  room_.close(guest.socket, reply);
}

void WaitingRoom::forget(Guest& guest) {
  num_bytes_ -= std::exchange(guest.counted, 0);
  if (!std::exchange(guest.is_used, true)) --num_new_;
}

bool WaitingRoom::take(Guest& guest, const char* data, std::size_t size) {
  ArrivingRequest& request = guest.request;
  const bool had_headers = request.has_headers();
  if (request.bytes().empty()) guest.since = Clock::now();
  request.add(data, size);
  num_bytes_ += request.bytes().size() - guest.counted;
  guest.counted = request.bytes().size();
  bool is_ready = request.is_whole();
  std::optional<ApiError> refusal;
  if (!had_headers && request.has_headers()) {
    guest.since = Clock::now();
    if (request.head() != nullptr) refusal = room_.refusal(*request.head());
    is_ready = is_ready || refusal;
    if (!is_ready && request.wants_continue()) {
      (void)send_bytes(guest.socket, go_on, std::char_traits<char>::length(go_on), CPPHTTPLIB_SEND_FLAGS);
    }
  }
  if (!is_ready && num_bytes_ <= limits_.max_bytes) return true;
  if (!is_ready) leave(guest, no_room);
  if (!is_ready) return false;
  ArrivedRequest arrived;
  arrived.has_body = request.has_body();
  arrived.is_whole = request.is_whole() && !refusal;
  arrived.head = request.take_head();
  arrived.refusal = std::move(refusal);
  arrived.bytes = request.take();
  room_.serve(guest.socket, std::move(arrived));
  forget(guest);
  return false;
}

bool WaitingRoom::is_too_slow(const Guest& guest, Clock::time_point now) const {
  const std::chrono::duration<double> waited = now - guest.since;
  const ArrivingRequest& request = guest.request;
  if (request.bytes().empty() && guest.is_used) return waited > limits_.idle;
  if (!request.has_headers()) return waited > limits_.patience;
  const double expected = limits_.min_rate * (waited - limits_.patience).count();
  return static_cast<double>(request.bytes().size()) < expected || waited > limits_.max_body_time;
}

}  // namespace specdec::server
