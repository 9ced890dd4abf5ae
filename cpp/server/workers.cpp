#include "server/workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace specdec::server {

Workers::Workers(std::size_t least, std::size_t most, std::size_t max_waiting)
    : most_(most), max_waiting_(max_waiting) {
  threads_.reserve(most);
  try {
    while (threads_.size() < std::min(least, most)) {
      threads_.emplace_back([this] { work(); });
      const std::lock_guard<std::mutex> lock(mutex_);
      ++num_idle_;
    }
  } catch (...) {
    shutdown();
    throw;
  }
}

bool Workers::enqueue(std::function<void()> request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_ending_ || waiting_.size() >= max_waiting_) return false;
  waiting_.push_back(std::move(request));
  if (waiting_.size() > num_idle_ && threads_.size() < most_) {
    try {
      threads_.emplace_back([this] { work(); });
      ++num_idle_;
    } catch (const std::exception&) {  // the request waits for a running thread
    }
  }
  arrived_.notify_one();
  return true;
}

void Workers::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> request = std::move(waiting_.front());
    waiting_.pop_front();
    --num_idle_;
    lock.unlock();
    try {
      request();
    } catch (...) {  // requests guard themselves (http_server.cpp); a thread outlives them in any case
    }
    lock.lock();
    ++num_idle_;
  }
}

void Workers::shutdown() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace specdec::server
