// Counters and times of a generation, summed over cycles.
#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <variant>

namespace specdec {

struct Stats {
  std::int64_t prompt_tokens = 0;
  std::int64_t prompt_cached_tokens = 0;  // prompt tokens found in the cache
  double prompt_seconds = 0.0;            // both models

  // A cycle adds what it commits. Tokens that are cut off later (Decoder::truncate: by a stop string inside a block, or
  // because the user ends the text) are subtracted, so at the end these count the text that the user got.
  std::int64_t tokens = 0;
  std::int64_t drafted = 0;          // scored by the target, including those cut off
  std::int64_t accepted = 0;         // those of `tokens` that were drafts
  std::int64_t drafted_copies = 0;   // those of `drafted` that were copied from text, not drafted by a model
  std::int64_t accepted_copies = 0;  // of `accepted`
  // Those of `drafted_copies` that came from the request's prediction of its output.
  std::int64_t drafted_predicted = 0;
  std::int64_t accepted_predicted = 0;  // of `accepted_copies`
  std::int64_t draft_calls = 0;         // passes of the draft model
  std::int64_t draft_tokens_read = 0;   // tokens of the text that the draft model read; of a long text, its window
  std::int64_t target_calls = 0;
  double draft_seconds = 0.0;     // the draft's passes, or the n-gram search
  double target_seconds = 0.0;    // the target's passes
  double sampling_seconds = 0.0;  // transforms and verification of both models' rows
  double seconds = 0.0;           // all cycles: the three times above and the rest

  double acceptance_rate() const {
    return drafted == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(drafted);
  }
  double tokens_per_target_call() const {
    return target_calls == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(target_calls);
  }
  double tokens_per_second() const { return seconds <= 0.0 ? 0.0 : static_cast<double>(tokens) / seconds; }
  std::int64_t prompt_tokens_read() const { return prompt_tokens - prompt_cached_tokens; }
  double prompt_tokens_per_second() const {
    return prompt_seconds <= 0.0 ? 0.0 : static_cast<double>(prompt_tokens_read()) / prompt_seconds;
  }
};

// The members with their names in Python (_results.py) and JSON.
struct StatsField {
  const char* name;
  std::variant<std::int64_t Stats::*, double Stats::*> member;
};
inline constexpr StatsField stats_fields[] = {
    {"prompt_tokens", &Stats::prompt_tokens},
    {"prompt_cached_tokens", &Stats::prompt_cached_tokens},
    {"prompt_seconds", &Stats::prompt_seconds},
    {"tokens", &Stats::tokens},
    {"drafted", &Stats::drafted},
    {"accepted", &Stats::accepted},
    {"drafted_copies", &Stats::drafted_copies},
    {"accepted_copies", &Stats::accepted_copies},
    {"drafted_predicted", &Stats::drafted_predicted},
    {"accepted_predicted", &Stats::accepted_predicted},
    {"draft_calls", &Stats::draft_calls},
    {"draft_tokens_read", &Stats::draft_tokens_read},
    {"target_calls", &Stats::target_calls},
    {"draft_seconds", &Stats::draft_seconds},
    {"target_seconds", &Stats::target_seconds},
    {"sampling_seconds", &Stats::sampling_seconds},
    {"seconds", &Stats::seconds},
};
static_assert(sizeof(Stats) == std::size(stats_fields) * sizeof(double), "a member is missing in stats_fields");

// Calls visit(name, value) for each member.
template <class Visit>
void for_each_field(const Stats& stats, Visit&& visit) {
  for (const StatsField& field : stats_fields) {
    std::visit([&](auto member) { visit(field.name, stats.*member); }, field.member);
  }
}

inline Stats& operator+=(Stats& sum, const Stats& other) {
  for (const StatsField& field : stats_fields) {
    std::visit([&](auto member) { sum.*member += other.*member; }, field.member);
  }
  return sum;
}

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
