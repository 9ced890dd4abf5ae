#include "cli/terminal/background_lines.h"

#include <utility>

#include "cli/terminal/output.h"

namespace specdec::cli {

BackgroundLines::BackgroundLines() : writer_([this] { work(); }) {}

BackgroundLines::~BackgroundLines() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  writer_.join();
}

void BackgroundLines::write(std::string line) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= most_waiting) ++num_dropped_;
    else waiting_.push_back(std::move(line));
  }
  changed_.notify_one();
}

void BackgroundLines::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::string text = std::move(waiting_.front()) + "\n";
    waiting_.pop_front();
    if (waiting_.empty() && num_dropped_ > 0) {
      text += "note: " + std::to_string(std::exchange(num_dropped_, 0)) + " lines of the log were dropped\n";
    }
    lock.unlock();
    note(text);
    lock.lock();
  }
}

}  // namespace specdec::cli
