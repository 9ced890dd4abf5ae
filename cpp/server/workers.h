// Threads that serve requests. httplib's pool counts a thread as idle until it wakes, so a burst of requests waits for
// the threads it started with; here each request beyond the idle threads gets a thread at once.
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
  // Starts `least` threads, at most `most` later. Throws std::system_error if the system starts none.
  Workers(std::size_t least, std::size_t most, std::size_t max_waiting);
  ~Workers() { shutdown(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: max_waiting requests wait already. Where the system starts no further thread, a request waits for one that
  // runs. Any thread.
  bool enqueue(std::function<void()> request);
  // Returns when the requests that were accepted have been served.
  void shutdown();

 private:
  void work();

  const std::size_t most_, max_waiting_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::size_t num_idle_ = 0;  // threads without a request, those that are starting included
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace specdec::server
