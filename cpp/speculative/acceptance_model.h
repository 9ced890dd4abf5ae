// How often drafts are accepted, by how sure the proposer is of them.
#pragma once

namespace specdec {

// log-odds(acceptance) = level + slope * log-odds(confidence), by Bayesian logistic regression that slowly forgets. A few
// verdicts teach both how good the draft is and whether its confidence means anything.
class AcceptanceModel {
 public:
  double probability(double confidence) const;
  void learn(double confidence, bool accepted);
  void forget();  // once per cycle: texts change

 private:
  // To begin with a draft is trusted more than it trusts itself: a few trials tell.
  double level_ = 0.5, slope_ = 0.6;
  static constexpr double level_doubt = 1.0, slope_doubt = 0.1;  // variances of that guess
  double level_variance_ = level_doubt, covariance_ = 0.0, slope_variance_ = slope_doubt;
};

}  // namespace specdec
