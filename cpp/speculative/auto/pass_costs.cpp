#include "speculative/auto/pass_costs.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace specdec {
// The prior of log seconds, up to a constant: a pass reads all weights once, and computes for every token.
double PassCosts::first_guess(int num_tokens) const { return std::log(num_tokens + options_.tokens_per_reading); }

int PassCosts::longest() const {
  int longest = 0;
  for (std::size_t i = first_size; i < num_slots_; ++i) longest = std::max(longest, sizes_[i]);
  return longest;
}

PassCosts::View PassCosts::view(int num_tokens) const {
  // The nearest sizes on both sides.
  std::size_t below = max_slots, above = max_slots;
  for (std::size_t i = first_size; i < num_slots_; ++i) {
    if (sizes_[i] == num_tokens) return {i, i, 0.0, 0.0, 0.0};
    if (sizes_[i] < num_tokens && (below == max_slots || sizes_[i] > sizes_[below])) below = i;
    if (sizes_[i] > num_tokens && (above == max_slots || sizes_[i] < sizes_[above])) above = i;
  }
  const auto distance = [&](std::size_t size) {
    return std::fabs(std::log(static_cast<double>(num_tokens) / sizes_[size]));
  };
  const auto beyond = [&](std::size_t size) {
    return View{size, size, 0.0, first_guess(num_tokens) - first_guess(sizes_[size]),
                options_.walk_variance * distance(size)};
  };
  if (below == max_slots) return beyond(above);
  if (above == max_slots) return beyond(below);
  const double up = distance(below), down = distance(above), share = up / (up + down);
  const double line = (1.0 - share) * first_guess(sizes_[below]) + share * first_guess(sizes_[above]);
  return {below, above, share, first_guess(num_tokens) - line, options_.walk_variance * up * down / (up + down)};
}

double PassCosts::covariance(const View& v, std::size_t slot) const {
  return (1.0 - v.share) * covariance_[v.below][slot] + v.share * covariance_[v.above][slot];
}

double PassCosts::covariance(const View& v, const View& w) const {
  return (1.0 - w.share) * covariance(v, w.below) + w.share * covariance(v, w.above);
}

// Monotonic: an estimate is limited by those of larger sizes, because disturbances only make passes longer.
double PassCosts::seconds(int num_tokens) const {
  if (empty()) return 0.0;
  const View v = view(num_tokens);
  double least = log_seconds(v);
  if (sizes_[v.below] < num_tokens) least = std::max(least, state_[v.below]);
  for (std::size_t i = first_size; i < num_slots_; ++i) {
    if (sizes_[i] > num_tokens) least = std::min(least, state_[i]);
  }
  return std::exp(least);
}

double PassCosts::doubt(int num_tokens) const {
  if (empty()) return 0.0;
  std::size_t best = first_size;
  for (std::size_t i = first_size; i < num_slots_; ++i) best = covariance_[i][i] < covariance_[best][best] ? i : best;
  const View v = view(num_tokens);
  return std::sqrt(std::max(0.0, covariance(v, v) + v.variance + covariance_[best][best] - 2.0 * covariance(v, best)));
}

AutoKnowledge::Costs PassCosts::knowledge() const {
  AutoKnowledge::Costs known;
  for (std::size_t i = first_size; i < num_slots_; ++i)
    known.passes.push_back({static_cast<double>(sizes_[i]), state_[i], doubt(sizes_[i])});
  known.change = change();
  known.noise = noise_;
  return known;
}

void PassCosts::begin_with(const AutoKnowledge::Costs& known) {
  const double speed = options_.speed_between_runs * options_.speed_between_runs;
  const double shape = options_.shape_between_runs * options_.shape_between_runs;
  for (const AutoKnowledge::PassCost& pass : known.passes) {
    if (num_slots_ == max_slots) break;
    const std::size_t slot = num_slots_++;
    sizes_[slot] = static_cast<int>(pass.tokens);
    state_[slot] = pass.log_seconds;
    for (std::size_t i = first_size; i < slot; ++i) covariance_[i][slot] = covariance_[slot][i] = speed;
    covariance_[slot][slot] = speed + shape + pass.doubt * pass.doubt;
    if (latest_ == 0 || sizes_[slot] < latest_) latest_ = sizes_[slot];
  }
  if (empty()) return;
  unit_ = std::min(options_.longest_change, seconds(latest_));
  state_[change_slot] = known.change / unit_;
  covariance_[change_slot][change_slot] = options_.walk_variance;
  noise_ = std::max(least_noise, known.noise);
}

// If all slots are used, replaces the size whose last measurement is oldest.
std::size_t PassCosts::find_or_insert(int num_tokens) {
  const View v = view(num_tokens);
  if (sizes_[v.below] == num_tokens) return v.below;
  const double value = log_seconds(v), variance = covariance(v, v) + v.variance;
  PerSlot<double> row{};
  for (std::size_t i = 0; i < num_slots_; ++i) row[i] = covariance(v, i);
  std::size_t slot = num_slots_;
  if (num_slots_ < max_slots) ++num_slots_;
  else slot = idx(std::min_element(last_.begin() + first_size, last_.end()) - last_.begin());
  row[slot] = variance;
  sizes_[slot] = num_tokens;
  state_[slot] = value;
  for (std::size_t i = 0; i < num_slots_; ++i) covariance_[i][slot] = covariance_[slot][i] = row[i];
  return slot;
}

// A pass that takes much longer than expected was disturbed: the deviation is clipped at two standard deviations. A
// pass is never much shorter by chance: if it is shorter by three deviations, the estimate was too slow (caches have
// warmed up, or another program has ended). Then the variance of this size is raised, and the variances of the others
// in proportion to their covariance with it.
void PassCosts::record(int num_tokens, double seconds) {
  const double measured = std::log(std::max(seconds, 1e-9));
  const bool is_change = num_tokens != latest_;
  if (empty()) {
    latest_ = num_tokens;
    num_slots_ = first_size + 1;
    sizes_[first_size] = num_tokens;
    state_[first_size] = measured;
    covariance_[first_size][first_size] = noise_ * noise_;
    covariance_[change_slot][change_slot] = options_.walk_variance;
    unit_ = std::min(options_.longest_change, std::exp(measured));
    return;
  }
  latest_ = num_tokens;
  const std::size_t size = find_or_insert(num_tokens);
  last_[size] = ++num_passes_;
  for (std::size_t i = first_size; i < num_slots_; ++i) {
    for (std::size_t j = first_size; j < num_slots_; ++j) covariance_[i][j] += options_.speed_variance;
    covariance_[i][i] += options_.shape_variance;
  }
  const double noise_variance = 1.5 * noise_ * noise_;  // of a normal distribution whose mean deviation is noise_

  // The logarithm of the measured time, linearised in the state (an extended Kalman filter).
  const double unchanged = std::exp(state_[size]), expected = unchanged + (is_change ? change() : 0.0);
  const double too_fast = std::min(0.0, measured - std::log(expected));
  const double missing_variance =
      too_fast * too_fast / (options_.too_fast * options_.too_fast) - (covariance_[size][size] + noise_variance);
  if (missing_variance > 0.0) {
    const PerSlot<double> leaning = covariance_[size];
    for (std::size_t i = first_size; i < num_slots_; ++i) {
      for (std::size_t j = first_size; j < num_slots_; ++j) {
        covariance_[i][j] += missing_variance * (leaning[i] / leaning[size]) * (leaning[j] / leaning[size]);
      }
    }
  }
  const double by_size = unchanged / expected, by_change = is_change ? unit_ / expected : 0.0;
  PerSlot<double> gain{};
  for (std::size_t i = 0; i < num_slots_; ++i)
    gain[i] = by_size * covariance_[i][size] + by_change * covariance_[i][change_slot];

  const double variance = by_size * gain[size] + by_change * gain[change_slot] + noise_variance;
  const double surprise = std::min(measured - std::log(expected), options_.outlier * std::sqrt(variance));
  for (std::size_t i = 0; i < num_slots_; ++i) {
    state_[i] += gain[i] * surprise / variance;
    for (std::size_t j = 0; j < num_slots_; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
  }
  state_[change_slot] = std::max(0.0, state_[change_slot]);
  const double deviation = std::min(std::fabs(surprise), 3.0 * noise_);
  noise_ = std::max(least_noise, noise_ + options_.noise_rate * noise_variance / variance * (deviation - noise_));
}

}  // namespace specdec
