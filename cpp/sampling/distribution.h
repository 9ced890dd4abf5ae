// A probability distribution over token ids, sparse, and the two things verification does with one:
// draw from it, and take what is left of the target after the draft (the residual).
#pragma once

#include <cstddef>
#include <vector>

#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

// Once filled: tokens ascending, distinct and not empty; probs of the same length, every one > 0, sum 1 to rounding.
// A token whose probability is zero, or underflows to it, is not in the support. Filling reuses the capacity.
struct Distribution {
  std::vector<Token> tokens;
  std::vector<double> probs;

  // 0 outside the support. O(1) when the support is 0..n-1, else O(log n).
  double probability(Token token) const noexcept;

  // Empty, with room for so many tokens. Given the capacity of what it is filled from, it grows as seldom as that does.
  void clear_for(std::size_t capacity);
  void set_one_hot(Token token);
  // row: size probabilities, of tokens 0..size-1; zeros leave the support.
  void set_dense(const double* row, int size);
};

// Inverse CDF in ascending token order: the first token whose cumulative probability exceeds uniform, which is in
// [0, 1). Where rounding lets the CDF end below uniform, the last token of positive probability.
Token draw(const Distribution& distribution, double uniform) noexcept;

// out = max(0, weight * target - draft), not normalised; returns its sum. out must be neither of the inputs.
double set_excess(const Distribution& target, double weight, const Distribution& draft, Distribution& out);
// Divides by the sum. Where rounding left nothing, out = fallback.
void normalise(Distribution& out, double sum, const Distribution& fallback);

// out = normalise(max(0, target - draft)), the distribution of the correction token. Where rounding leaves that
// empty (the two are equal up to it), out = target. out must be neither of the inputs.
void residual(const Distribution& target, const Distribution& draft, Distribution& out);

}  // namespace specdec::sampling
