#include "speculative/auto/acceptance_model.h"

#include <algorithm>
#include <cmath>

namespace specdec {
double AcceptanceModel::log_odds(double confidence) const {
  const double p = std::clamp(confidence, options_.least_confidence, 0.998);
  return std::log(p / (1.0 - p));
}

double AcceptanceModel::probability(double confidence) const {
  return 1.0 / (1.0 + std::exp(-level_ - slope_ * log_odds(confidence)));
}

// The usual approximation of the mean of a logistic function of a normal variable (MacKay 1992, "The evidence framework
// applied to classification networks", section 4).
double AcceptanceModel::expected_probability(double confidence) const {
  constexpr double pi = 3.14159265358979323846;
  const double x = log_odds(confidence);
  const double variance = level_variance_ + 2.0 * covariance_ * x + slope_variance_ * x * x;
  return 1.0 / (1.0 + std::exp(-(level_ + slope_ * x) / std::sqrt(1.0 + pi / 8.0 * variance)));
}

void AcceptanceModel::begin_with(const AutoKnowledge::Acceptance& known) {
  const double kept = options_.between_runs;
  level_ = options_.level + kept * (known.level - options_.level);
  slope_ = options_.slope + kept * (known.slope - options_.slope);
  level_variance_ = (1.0 - kept) * options_.level_variance;
  slope_variance_ = (1.0 - kept) * options_.slope_variance;
}

// Without verdicts the variances grow back to their initial values, so the next verdict has a large effect.
void AcceptanceModel::forget() {
  level_variance_ = std::min(options_.level_variance, level_variance_ + options_.drift * options_.level_variance);
  slope_variance_ = std::min(options_.slope_variance, slope_variance_ + options_.drift * options_.slope_variance);
}

// One step of an extended Kalman filter.
void AcceptanceModel::learn(double confidence, bool accepted) {
  const double x = log_odds(confidence), expected = probability(confidence);
  const double information = expected * (1.0 - expected);
  const double level_gain = level_variance_ + covariance_ * x, slope_gain = covariance_ + slope_variance_ * x;
  const double scale = 1.0 / (1.0 + information * (level_gain + slope_gain * x));
  const double surprise = (accepted ? 1.0 : 0.0) - expected;
  level_ += scale * level_gain * surprise;
  slope_ = std::max(0.0, slope_ + scale * slope_gain * surprise);
  level_variance_ -= scale * information * level_gain * level_gain;
  covariance_ -= scale * information * level_gain * slope_gain;
  slope_variance_ -= scale * information * slope_gain * slope_gain;
}

}  // namespace specdec
