// Reports progress and the log to Python while models are loaded, and checks for Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <string>

#include "llama/load_progress.h"

// Lives on the thread that loads.
class LoadWatch {
 public:
  // tell(step, share): called at most every 50 ms, and always at the beginning and the end of each step; step is "" if
  // only a line was logged. An exception from it, or from a signal's handler, ends the load.
  explicit LoadWatch(pybind11::function tell);
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  bool operator()(const specdec::LoadProgress& at);  // without the GIL; throws nothing; false ends the load
  void check() const;                                // with the GIL: throws the exception that ended the load

  // Called on a thread that has just logged a line: calls tell() if that thread has a watch.
  static void logged();

 private:
  using Clock = std::chrono::steady_clock;
  bool tick(const specdec::LoadProgress& at, bool is_due);

  const pybind11::function tell_;
  LoadWatch* const outer_;  // the watch of a load that a signal handler on this thread interrupted
  std::string step_;
  Clock::time_point last_;
  bool has_failed_ = false;  // Python's exception is set
};
