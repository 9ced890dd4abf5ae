// Writes lines to standard error or to a file in the background, so that a reader that is slow or gone delays no
// request.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace specdec::cli {

class BackgroundLines {
 public:
  // file: lines are appended to it; "": standard error. Throws Error, std::system_error.
  explicit BackgroundLines(const std::string& file = "");
  ~BackgroundLines();  // writes the lines that wait
  BackgroundLines(const BackgroundLines&) = delete;
  BackgroundLines& operator=(const BackgroundLines&) = delete;

  void write(std::string line);  // any thread

 private:
  void work();

  static constexpr std::size_t most_waiting = 10000;  // more are dropped, and a line says so

  void put(const std::string& text);

  std::string path_;
  std::ofstream file_;  // not open: standard error
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::size_t num_dropped_ = 0;
  bool is_ending_ = false;
  std::thread writer_;
};

}  // namespace specdec::cli
