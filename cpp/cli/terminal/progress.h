// Shows a command's progress on standard error: on a terminal one line that is overwritten, otherwise (a log) a line
// every few seconds.
#pragma once

#include <chrono>
#include <string>

#include "platform/interrupt.h"

namespace specdec::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }  // so that an error message starts on an empty line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows the result of text(). Rate-limited: may be called often.
  template <typename Text>
  void update(Text&& text) {
    if (due()) put(text());
  }
  // The same, for callbacks that return whether to continue: false after an interrupt.
  template <typename Text>
  bool goes_on(Text&& text) {
    update(text);
    return !interrupted();
  }
  // Starts a new phase, which a terminal shows at once.
  void begin(const std::string& text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool due() const { return Clock::now() - last_ >= interval_; }
  void put(const std::string& text);

  bool terminal_;
  Clock::duration interval_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace specdec::cli
