// llama.cpp's log for Python's logging. Threads that run models only add lines to a queue: they never wait for Python's
// lock. A thread that loads models lets Python take the lines meanwhile.
#include <pybind11/stl.h>

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/load_watch.h"
#include "bindings/register.h"
#include "llama/backend.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

struct Line {
  specdec::LogLevel level;
  std::string text;
};

// The latest lines; older ones that nobody took are dropped.
class LogQueue {
 public:
  void add(Line line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.size() >= most) lines_.pop_front();
    lines_.push_back(std::move(line));
  }
  std::deque<Line> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  static constexpr std::size_t most = 10000;
  std::mutex mutex_;
  std::deque<Line> lines_;
};

LogQueue& queue() {
  static auto* const lines = new LogQueue;  // never destroyed: threads may outlive the end of Python
  return *lines;
}

// Python's numbers of the levels.
int number_of(specdec::LogLevel level) {
  switch (level) {
    case specdec::LogLevel::debug:
      return 10;
    case specdec::LogLevel::info:
      return 20;
    case specdec::LogLevel::warning:
      return 30;
    default:
      return 40;
  }
}

}  // namespace

void register_log(py::module_& m) {
  specdec::set_log_sink([](specdec::LogLevel level, const std::string& line) {
    queue().add({level, line});
    LoadWatch::logged();
  });
  m.def(
      "take_log",
      [] {
        std::vector<std::pair<int, py::str>> lines;
        for (const Line& line : queue().take()) lines.emplace_back(number_of(line.level), text_from_bytes(line.text));
        return lines;
      },
      "The (level, line) pairs logged since the last call, oldest first, at most the latest 10,000. Levels as in "
      "logging.");
}
