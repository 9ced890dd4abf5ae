// Token verification, also called Modified Rejection Sampling: Chen et al., arXiv:2302.01318, algorithm 2, theorem 1;
// Leviathan et al., arXiv:2211.17192, algorithm 1. The output has exactly the target's distribution for any draft,
// given that drafted[i] was drawn from draft_probs[i] and that the uniforms are independent of it.
#pragma once

#include <cstddef>
#include <vector>

#include "sampling/distribution.h"

namespace specdec::sampling {

// The cycle yields the first num_accepted drafted tokens, then next_token: the correction token after a rejection,
// the bonus token after full acceptance.
struct Verdict {
  int num_accepted;
  Token next_token;
};
inline bool operator==(const Verdict& a, const Verdict& b) noexcept {
  return a.num_accepted == b.num_accepted && a.next_token == b.next_token;
}

// True with probability min(1, target_prob / draft_prob), for uniform in [0, 1). `<`, not `<=`, so that a token of
// target probability zero is rejected even at uniform = 0.
inline bool accepts(double uniform, double draft_prob, double target_prob) noexcept {
  return uniform * draft_prob < target_prob;
}

// drafted, draft_probs: [num_drafted]. target_row(place) -> const Distribution&: the target's distribution at place
// 0..num_drafted. Called in order, at most once per place, and not beyond the first rejected token. uniform(place) ->
// double in [0, 1): decides on the drafted token of that place; place num_drafted draws next_token. scratch: space for
// the residual; must not be any of the other distributions.
template <class TargetRow, class Uniform>
Verdict verify_token(const Token* drafted, int num_drafted, const Distribution* draft_probs, TargetRow&& target_row,
                     Uniform&& uniform, Distribution& scratch) {
  for (int i = 0; i < num_drafted; ++i) {
    const Distribution& target_probs = target_row(i);
    const double draft_prob = draft_probs[i].probability(drafted[i]);
    const double target_prob = target_probs.probability(drafted[i]);
    if (accepts(uniform(i), draft_prob, target_prob)) continue;
    residual(target_probs, draft_probs[i], scratch);
    return {i, draw(scratch, uniform(num_drafted))};
  }
  return {num_drafted, draw(target_row(num_drafted), uniform(num_drafted))};
}

// Throws std::invalid_argument unless the lengths are K, K, K + 1 and K + 1.
void check_lengths(std::size_t drafted, std::size_t draft_probs, std::size_t target_probs, std::size_t uniforms);

// The same with all rows in memory. Lengths: drafted and draft_probs K, target_probs and uniforms K + 1; others throw
// std::invalid_argument.
Verdict verify_token(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms);

}  // namespace specdec::sampling
