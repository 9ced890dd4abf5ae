// A sparse probability distribution over token ids, with the two operations of verification: drawing a token, and the
// residual max(0, target - draft).
#pragma once

#include <cstddef>
#include <vector>

#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

// Once filled: tokens ascending, distinct and not empty; probs of the same length, all > 0, summing to 1 up to
// rounding. Tokens whose probability is zero, or underflows to zero, are left out. Filling reuses the capacity.
struct Distribution {
  std::vector<Token> tokens;
  std::vector<double> probs;

  // 0 outside the support. O(1) when the support is 0..n-1, else O(log n).
  double probability(Token token) const noexcept;

  // Empties the distribution and reserves room for `capacity` tokens. Pass the capacity of the source that fills it:
  // then this reallocates only when the source did.
  void clear_for(std::size_t capacity);
  void set_one_hot(Token token);
  // row [size]: probabilities of tokens 0..size-1; zeros are left out.
  void set_dense(const double* row, int size);
  void drop_zeros() noexcept;
};

// The distribution given that it is not this token. Empty if it can be no other.
void remove_token(Distribution& distribution, Token token);

// Inverse CDF in ascending token order: the first token whose cumulative probability exceeds `uniform`, in [0, 1). If
// rounding makes the CDF end below `uniform`, the last token of positive probability.
Token draw(const Distribution& distribution, double uniform) noexcept;

// out = max(0, weight * target - draft), not normalised; returns its sum. out must be neither of the inputs.
double set_excess(const Distribution& target, double weight, const Distribution& draft, Distribution& out);
// Divides out by sum. If out is empty (because of rounding), out = fallback.
void normalise(Distribution& out, double sum, const Distribution& fallback);

// out = normalise(max(0, target - draft)), the distribution of the correction token. If that is empty (the two are
// equal up to rounding), out = target. out must be neither of the inputs.
void residual(const Distribution& target, const Distribution& draft, Distribution& out);

}  // namespace specdec::sampling
