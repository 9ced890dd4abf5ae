// Counters and times of a generation, summed over cycles.
#pragma once

#include <chrono>
#include <cstdint>

namespace specdec {

struct Stats {
  std::int64_t prompt_tokens = 0;
  std::int64_t prompt_cached_tokens = 0;  // prompt tokens found in the cache
  double prompt_seconds = 0.0;            // both models

  // A cycle adds what it commits; tokens that are cut off later (Decoder::truncate: by a stop string inside a block, or because the
  // user ends the text) are subtracted. So at the end these are counts of the text that the user got.
  std::int64_t tokens = 0;
  std::int64_t drafted = 0;   // scored by the target, those cut off included
  std::int64_t accepted = 0;  // of `tokens`, those that were drafts
  std::int64_t target_calls = 0;
  std::int64_t draft_calls = 0;   // passes of the draft model
  double draft_seconds = 0.0;     // the draft's passes, or the n-gram search
  double target_seconds = 0.0;    // the target's passes
  double sampling_seconds = 0.0;  // transforms and verification of both models' rows
  double seconds = 0.0;           // all cycles: the three times above and the rest

  // Adds the other's times and call counts, not its token counts.
  void add_passes(const Stats& other) {
    target_calls += other.target_calls;
    draft_calls += other.draft_calls;
    draft_seconds += other.draft_seconds;
    target_seconds += other.target_seconds;
    sampling_seconds += other.sampling_seconds;
    seconds += other.seconds;
  }

  double acceptance_rate() const { return drafted == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(drafted); }
  double tokens_per_target_call() const {
    return target_calls == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(target_calls);
  }
  double tokens_per_second() const { return seconds <= 0.0 ? 0.0 : static_cast<double>(tokens) / seconds; }
};

// Adds its lifetime to a counter of seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~Stopwatch() { seconds_ += elapsed(); }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

}  // namespace specdec
