#include "speculative/acceptance_model.h"

#include <algorithm>
#include <cmath>

namespace specdec {
namespace {

// How fast texts change, as variance per cycle: with a verdict or two per cycle, the last 50 or so count.
constexpr double level_drift = 4e-3, slope_drift = 1e-4;

double log_odds(double probability) {
  const double p = std::clamp(probability, 0.01, 0.998);  // beyond, confidences mean no more
  return std::log(p / (1.0 - p));
}

}  // namespace

double AcceptanceModel::probability(double confidence) const { return 1.0 / (1.0 + std::exp(-level_ - slope_ * log_odds(confidence))); }

// Without verdicts doubt grows back to what it was at first, and the next verdict counts for much.
void AcceptanceModel::forget() {
  level_variance_ = std::min(level_doubt, level_variance_ + level_drift);
  slope_variance_ = std::min(slope_doubt, slope_variance_ + slope_drift);
}

// One step of an extended Kalman filter.
void AcceptanceModel::learn(double confidence, bool accepted) {
  const double x = log_odds(confidence), expected = probability(confidence);
  const double information = std::max(0.02, expected * (1.0 - expected));  // never nothing: surprises must be able to teach
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
