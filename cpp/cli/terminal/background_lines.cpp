#include "cli/terminal/background_lines.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/terminal/output.h"

namespace specdec::cli {

BackgroundLines::BackgroundLines(const std::string& file) : path_(file) {
  if (!path_.empty()) file_.open(path_, std::ios::app | std::ios::binary);
  if (!path_.empty() && !file_) throw Error(path_ + ": cannot be opened: " + std::generic_category().message(errno));
  writer_ = std::thread([this] { work(); });
}

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

void BackgroundLines::put(const std::string& text) {
  if (!file_.is_open()) return note(text);
  file_ << text << std::flush;
  if (file_) return;
  file_.close();
  note(path_ + ": the log cannot be written; it continues here\n" + text);
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
    put(text);
    lock.lock();
  }
}

}  // namespace specdec::cli
