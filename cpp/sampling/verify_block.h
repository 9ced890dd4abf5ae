// Block verification: Sun, Mendlovic, Leviathan, Aharoni, Ro, Beirami and Suresh, "Block verification accelerates
// speculative decoding", arXiv:2403.10444, algorithm 2. The output has the target's distribution, as with token
// verification, but the drafts are verified together: within one cycle, no exact method accepts more of them in
// expectation.
//
// It stays exact if a rule chooses the number of drafts during the cycle, as long as the decision to make draft i
// depends only on drafts 0..i-1 and draft_probs[i], not on drafted[i]. Proof by induction from the last draft: P(at
// least i accepted | drafts 0..i-1) = keep(i) for any such rule, so token x follows them with probability draft(x) *
// keep(i+1) + max(0, keep(i) * target(x) - draft(x)) = keep(i) * target(x).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/verify_token.h"

namespace specdec::sampling {

// Arguments as for verify_token. The cycle keeps the longest prefix whose test succeeds; a rejected prefix does not end
// the search. target_row is called in order, at most once per place, as long as a longer prefix is possible. uniform(i)
// decides on the prefix that ends with drafted[i], uniform(num_drafted) draws next_token. excess, correction: scratch
// space for two residuals; must not be any of the other distributions.
template <class TargetRow, class Uniform>
Verdict verify_block(const Token* drafted, int num_drafted, const Distribution* draft_probs, TargetRow&& target_row,
                     Uniform&& uniform, Distribution& excess, Distribution& correction) {
  int num_accepted = 0;
  double keep = 1.0;  // P(at least i drafts are accepted | drafts 0..i-1): p_i of the paper
  for (int i = 0; i < num_drafted && keep > 0.0; ++i) {
    const Distribution& target_probs = target_row(i);
    const double rest = set_excess(target_probs, keep, draft_probs[i], excess);
    if (i == 0 || uniform(i - 1) * (rest + (1.0 - keep)) < rest) {  // h_i of the paper, not divided
      num_accepted = i;
      std::swap(excess, correction);
      normalise(correction, rest, target_probs);
    }
    // With the arguments in this order, the minimum of NaN and 1 is NaN, and NaN accepts nothing.
    keep = std::min(keep * target_probs.probability(drafted[i]) / draft_probs[i].probability(drafted[i]), 1.0);
  }
  const bool all = num_drafted == 0 || uniform(num_drafted - 1) < keep;
  if (all) return {num_drafted, draw(target_row(num_drafted), uniform(num_drafted))};
  return {num_accepted, draw(correction, uniform(num_drafted))};
}

// The same with all rows in memory. Lengths: drafted and draft_probs K, target_probs and uniforms K + 1; others throw
// std::invalid_argument.
Verdict verify_block(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms);

}  // namespace specdec::sampling
