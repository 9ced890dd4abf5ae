// Block verification: Sun, Mendlovic, Leviathan, Aharoni, Ro, Beirami and Suresh, "Block verification accelerates
// speculative decoding", arXiv:2403.10444, algorithm 2. The law is the target's, as with token verification, but the drafts
// are judged together: the number accepted is the largest that it can be in expectation, for one cycle.
//
// Exact for any rule that decides on the way how many drafts there are, from drafts 0..i-1 and draft_probs[i] but not drafted[i]:
// by induction from the last draft, P(at least i accepted | drafts 0..i-1) = keep(i) whatever the rule does further on, so that
// token x follows them with draft(x) * keep(i+1) + max(0, keep(i) * target(x) - draft(x)) = keep(i) * target(x).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/verify_token.h"

namespace specdec::sampling {

// Arguments as for verify_token. The cycle keeps the longest prefix whose test succeeds, so that a refusal does not end the
// search: target_row is asked for in order, each at most once, as far as a longer prefix is still possible; uniform(i) decides
// on the prefix that ends with drafted[i], uniform(num_drafted) draws next_token.
// excess, correction: room for two residuals; must be none of the other distributions.
template <class TargetRow, class Uniform>
Verdict verify_block(const Token* drafted, int num_drafted, const Distribution* draft_probs, TargetRow&& target_row, Uniform&& uniform,
                     Distribution& excess, Distribution& correction) {
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
    // In this order the minimum of NaN and 1 is NaN, which accepts nothing.
    keep = std::min(keep * target_probs.probability(drafted[i]) / draft_probs[i].probability(drafted[i]), 1.0);
  }
  const bool all = num_drafted == 0 || uniform(num_drafted - 1) < keep;
  if (all) return {num_drafted, draw(target_row(num_drafted), uniform(num_drafted))};
  return {num_accepted, draw(correction, uniform(num_drafted))};
}

// The same with every row at hand. Lengths: drafted and draft_probs K, target_probs and uniforms K + 1; others throw
// std::invalid_argument.
Verdict verify_block(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms);

}  // namespace specdec::sampling
