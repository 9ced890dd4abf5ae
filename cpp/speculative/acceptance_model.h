// Predicts the probability that a draft is accepted from the proposer's confidence in it.
#pragma once

namespace specdec {

// log-odds(acceptance) = level + slope * log-odds(confidence), fitted by Bayesian logistic regression with forgetting. A few
// verdicts are enough to learn how good the draft is (level) and how informative its confidence is (slope).
class AcceptanceModel {
 public:
  double probability(double confidence) const;
  void learn(double confidence, bool accepted);
  void forget();  // once per cycle, because acceptance changes along a sequence

 private:
  // The prior assumes more acceptance than the confidences suggest, so that drafts are tried; a few verdicts correct it.
  double level_ = 0.5, slope_ = 0.6;
  static constexpr double level_doubt = 1.0, slope_doubt = 0.1;  // prior variances
  double level_variance_ = level_doubt, covariance_ = 0.0, slope_variance_ = slope_doubt;
};

}  // namespace specdec
