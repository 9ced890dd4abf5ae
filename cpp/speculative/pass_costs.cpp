#include "speculative/pass_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

PassCosts::View PassCosts::view(int num_tokens) const {
  const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), num_tokens);
  const auto above = static_cast<std::size_t>(found - sizes_.begin()), below = above - 1;
  if (found != sizes_.end() && *found == num_tokens) return {above, above, 0.0, 0.0, 0.0};
  const auto distance = [&](std::size_t size) { return std::fabs(std::log(static_cast<double>(num_tokens) / sizes_[size])); };
  const auto beyond = [&](std::size_t size) {
    return View{size, size, 0.0, first_guess(num_tokens) - first_guess(sizes_[size]), walk_variance * distance(size)};
  };
  if (found == sizes_.begin()) return beyond(above);
  if (found == sizes_.end()) return beyond(below);
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
  const auto longer = std::upper_bound(sizes_.begin(), sizes_.end(), num_tokens) - sizes_.begin();
  double least = mean(view(num_tokens));
  for (auto size = mean_.begin() + longer; size != mean_.end(); ++size) least = std::min(least, *size);
  return std::exp(least);
}

double PassCosts::doubt(int num_tokens) const {
  if (empty()) return 0.0;
  std::size_t best = 0;
  for (std::size_t i = 1; i < sizes_.size(); ++i) best = covariance_[i][i] < covariance_[best][best] ? i : best;
  const View v = view(num_tokens);
  return std::sqrt(std::max(0.0, covariance(v, v) + v.variance + covariance_[best][best] - 2.0 * covariance(v, best)));
}

std::size_t PassCosts::find_or_insert(int num_tokens) {
  const auto index = std::lower_bound(sizes_.begin(), sizes_.end(), num_tokens) - sizes_.begin();
  const auto size = static_cast<std::size_t>(index);
  if (size < sizes_.size() && sizes_[size] == num_tokens) return size;
  const View v = view(num_tokens);
  const double value = mean(v), variance = covariance(v, v) + v.variance;
  std::vector<double> row(sizes_.size());
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = covariance(v, i);
  for (std::size_t i = 0; i < row.size(); ++i) covariance_[i].insert(covariance_[i].begin() + index, row[i]);
  row.insert(row.begin() + index, variance);
  covariance_.insert(covariance_.begin() + index, std::move(row));
  mean_.insert(mean_.begin() + index, value);
  sizes_.insert(sizes_.begin() + index, num_tokens);
  return size;
}

// A pass that takes much longer than expected was disturbed, and counts for no more than twice the usual deviation.
void PassCosts::record(int num_tokens, double seconds) {
  const double measured = std::log(std::max(seconds, 1e-9));
  if (empty()) {
    sizes_ = {num_tokens};
    mean_ = {measured};
    covariance_ = {{noise_ * noise_}};
    return;
  }
  const std::size_t size = find_or_insert(num_tokens);
  for (std::vector<double>& row : covariance_) {
    for (double& c : row) c += speed_variance;
  }
  for (std::size_t i = 0; i < sizes_.size(); ++i) covariance_[i][i] += shape_variance;
  const double noise_variance = 1.5 * noise_ * noise_;  // as of a normal distribution with that mean deviation
  const double variance = covariance_[size][size] + noise_variance;
  const double surprise = std::min(measured - mean_[size], 2.0 * std::sqrt(variance));
  gain_ = covariance_[size];
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    mean_[i] += gain_[i] * surprise / variance;
    for (std::size_t j = 0; j < sizes_.size(); ++j) covariance_[i][j] -= gain_[i] * gain_[j] / variance;
  }
  const double deviation = std::min(std::fabs(surprise), 3.0 * noise_);
  noise_ = std::max(least_noise, noise_ + 0.05 * noise_variance / variance * (deviation - noise_));
}

}  // namespace specdec
