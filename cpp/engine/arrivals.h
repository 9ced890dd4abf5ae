// Counts arrivals, so that one thread can wait for news of several requests. Listeners share the counter, because they
// may outlive the thread that waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace specdec {

class Arrivals {
 public:
  void tell() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++count_;
    }
    changed_.notify_one();
  }
  std::uint64_t count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }
  // Waits until the count differs from `count`, for at most `timeout`.
  void wait_beyond(std::uint64_t count, std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return count_ != count; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

}  // namespace specdec
