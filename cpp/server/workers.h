// Threads that serve requests. httplib's pool counts a thread as idle until it wakes, so a burst of requests waits for
// the threads that exist; here each request beyond the idle threads gets a new thread at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace specdec::server {

class Workers {
 public:
  // Starts `least` threads, and later up to `most`. Throws std::system_error if the system cannot start any.
  Workers(std::size_t least, std::size_t most, std::size_t max_waiting);
  ~Workers() { shutdown(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Returns false if max_waiting requests wait already. If the system cannot start another thread, the request waits
  // for a running one. For any thread.
  bool enqueue(std::function<void()> request);
  // Returns when all accepted requests have been served.
  void shutdown();

 private:
  void work();

  const std::size_t most_, max_waiting_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::size_t num_idle_ = 0;  // threads without a request, including those that are starting
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace specdec::server
