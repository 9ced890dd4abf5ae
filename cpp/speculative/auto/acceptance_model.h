// Predicts the probability that a draft is accepted from the proposer's confidence in it.
#pragma once

#include "speculative/auto/auto_knowledge.h"
#include "speculative/auto/auto_options.h"

namespace specdec {

// log-odds(acceptance) = level + slope * log-odds(confidence), fitted by Bayesian logistic regression with forgetting.
// A few verdicts are enough to learn how good the draft is (level) and how informative its confidence is (slope).
class AcceptanceModel {
 public:
  explicit AcceptanceModel(const AutoOptions::Acceptance& options = {}) : options_(options) {}

  double probability(double confidence) const;
  // The mean over what level and slope may be: nearer to even odds while little is known.
  double expected_probability(double confidence) const;
  void learn(double confidence, bool accepted);
  AutoKnowledge::Acceptance knowledge() const { return {level_, slope_}; }
  void begin_with(const AutoKnowledge::Acceptance& known);  // before the first verdict
  void forget();  // once per cycle, because acceptance changes along a sequence

 private:
  double log_odds(double confidence) const;

  AutoOptions::Acceptance options_;
  double level_ = options_.level, slope_ = options_.slope;
  double level_variance_ = options_.level_variance, covariance_ = 0.0, slope_variance_ = options_.slope_variance;
};

}  // namespace specdec
