// How far a command is, on standard error: on a terminal one line that is overwritten, elsewhere (a log) a line every few
// seconds.
#pragma once

#include <chrono>
#include <string>

#include "platform/interrupt.h"

namespace specdec::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }  // before what ends the command is reported
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows what text() returns; called often, it does so only now and then.
  template <typename Text>
  void update(Text&& text) {
    if (due()) put(text());
  }
  // The same, for callbacks that are asked whether to go on: not after an interrupt.
  template <typename Text>
  bool goes_on(Text&& text) {
    update(text);
    return !interrupted();
  }
  // A new phase: a terminal shows it at once.
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
