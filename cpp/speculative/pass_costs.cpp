#include "speculative/pass_costs.h"

#include <algorithm>
#include <cmath>

namespace specdec {
namespace {

// The first guess: a pass reads all weights once, and that takes as long as computing so many tokens.
constexpr double tokens_per_reading = 16.0;
double first_guess(int num_tokens) { return std::log(num_tokens + tokens_per_reading); }

constexpr double walk_variance = 0.1;    // per unit of log(num_tokens): a doubling may cost e^0.26 more than guessed, or less
constexpr double speed_variance = 1e-4;  // from pass to pass, of all sizes: the machine's speed drifts by 1 %
constexpr double shape_variance = 5e-5;  // from pass to pass, of each size: the cache grows
constexpr double least_noise = 0.01;

}  // namespace

int PassCosts::longest() const {
  int longest = 0;
  for (std::size_t i = 0; i < num_sizes_; ++i) longest = std::max(longest, sizes_[i]);
  return longest;
}

PassCosts::View PassCosts::view(int num_tokens) const {
  // The nearest sizes on both sides.
  std::size_t below = max_sizes, above = max_sizes;
  for (std::size_t i = 0; i < num_sizes_; ++i) {
    if (sizes_[i] == num_tokens) return {i, i, 0.0, 0.0, 0.0};
    if (sizes_[i] < num_tokens && (below == max_sizes || sizes_[i] > sizes_[below])) below = i;
    if (sizes_[i] > num_tokens && (above == max_sizes || sizes_[i] < sizes_[above])) above = i;
  }
  const auto distance = [&](std::size_t size) { return std::fabs(std::log(static_cast<double>(num_tokens) / sizes_[size])); };
  const auto beyond = [&](std::size_t size) {
    return View{size, size, 0.0, first_guess(num_tokens) - first_guess(sizes_[size]), walk_variance * distance(size)};
  };
  if (below == max_sizes) return beyond(above);
  if (above == max_sizes) return beyond(below);
  const double up = distance(below), down = distance(above), share = up / (up + down);
  const double line = (1.0 - share) * first_guess(sizes_[below]) + share * first_guess(sizes_[above]);
  return {below, above, share, first_guess(num_tokens) - line, walk_variance * up * down / (up + down)};
}

double PassCosts::covariance(const View& v, std::size_t size) const {
  return (1.0 - v.share) * covariance_[v.below][size] + v.share * covariance_[v.above][size];
}

double PassCosts::covariance(const View& v, const View& w) const {
  return (1.0 - w.share) * covariance(v, w.below) + w.share * covariance(v, w.above);
}

// Disturbances make passes longer, never shorter: no pass takes longer than a longer one.
double PassCosts::seconds(int num_tokens) const {
  if (empty()) return 0.0;
  double least = mean(view(num_tokens));
  for (std::size_t i = 0; i < num_sizes_; ++i) {
    if (sizes_[i] > num_tokens) least = std::min(least, mean_[i]);
  }
  return std::exp(least);
}

double PassCosts::doubt(int num_tokens) const {
  if (empty()) return 0.0;
  std::size_t best = 0;
  for (std::size_t i = 1; i < num_sizes_; ++i) best = covariance_[i][i] < covariance_[best][best] ? i : best;
  const View v = view(num_tokens);
  return std::sqrt(std::max(0.0, covariance(v, v) + v.variance + covariance_[best][best] - 2.0 * covariance(v, best)));
}

// Where there is no room, the size that was not measured for longest is forgotten.
std::size_t PassCosts::find_or_insert(int num_tokens) {
  const View v = view(num_tokens);
  if (sizes_[v.below] == num_tokens) return v.below;
  const double value = mean(v), variance = covariance(v, v) + v.variance;
  PerSize<double> row{};
  for (std::size_t i = 0; i < num_sizes_; ++i) row[i] = covariance(v, i);
  std::size_t size = num_sizes_;
  if (num_sizes_ < max_sizes) ++num_sizes_;
  else size = static_cast<std::size_t>(std::min_element(last_.begin(), last_.end()) - last_.begin());
  row[size] = variance;
  sizes_[size] = num_tokens;
  mean_[size] = value;
  for (std::size_t i = 0; i < num_sizes_; ++i) covariance_[i][size] = covariance_[size][i] = row[i];
  return size;
}

// A pass that takes much longer than expected was disturbed, and counts for no more than twice the usual deviation.
void PassCosts::record(int num_tokens, double seconds) {
  const double measured = std::log(std::max(seconds, 1e-9));
  if (empty()) {
    num_sizes_ = 1;
    sizes_[0] = num_tokens;
    mean_[0] = measured;
    covariance_[0][0] = noise_ * noise_;
    return;
  }
  const std::size_t size = find_or_insert(num_tokens);
  last_[size] = ++num_passes_;
  for (std::size_t i = 0; i < num_sizes_; ++i) {
    for (std::size_t j = 0; j < num_sizes_; ++j) covariance_[i][j] += speed_variance;
    covariance_[i][i] += shape_variance;
  }
  const double noise_variance = 1.5 * noise_ * noise_;  // as of a normal distribution with that mean deviation
  const double variance = covariance_[size][size] + noise_variance;
  const double surprise = std::min(measured - mean_[size], 2.0 * std::sqrt(variance));
  const PerSize<double> gain = covariance_[size];
  for (std::size_t i = 0; i < num_sizes_; ++i) {
    mean_[i] += gain[i] * surprise / variance;
    for (std::size_t j = 0; j < num_sizes_; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
  }
  const double deviation = std::min(std::fabs(surprise), 3.0 * noise_);
  noise_ = std::max(least_noise, noise_ + 0.05 * noise_variance / variance * (deviation - noise_));
}

}  // namespace specdec
