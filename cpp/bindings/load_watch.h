// What Python gets while models are loaded: how far it is, the log, and Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <string>

#include "llama/load_progress.h"

// Lives on the thread that loads.
class LoadWatch {
 public:
  // tell(step, share): called at most every 50 ms, but at the beginning and the end of each step; step is "" if only a
  // line was logged. An exception of it, or of a signal's handler, ends the load.
  explicit LoadWatch(pybind11::function tell);
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  bool operator()(const specdec::LoadProgress& at);  // without the GIL; throws nothing; false ends the load
  void check() const;                                // with the GIL: throws what ended it

  // On a thread that has just logged a line: tells, if a watch lives there.
  static void logged();

 private:
  using Clock = std::chrono::steady_clock;
  bool tick(const specdec::LoadProgress& at, bool is_due);

  const pybind11::function tell_;
  LoadWatch* const outer_;  // of a load that a handler of this thread interrupts
  std::string step_;
  Clock::time_point last_;
  bool has_failed_ = false;  // Python's exception is set
};
