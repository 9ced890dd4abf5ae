// Log-probabilities of tokens under a row of raw logits. They are reported to callers but not used for sampling.
#pragma once

#include <vector>

#include "sampling/distribution.h"

namespace specdec::sampling {

// log(exp(logits[token]) / sum(exp(logits))) for any token of a row.
struct LogSoftmax {
  const float* logits;  // [size], finite or -inf
  int size;
  double max, log_total;  // of the logits; log(sum(exp(logits - max)))

  double operator()(Token token) const { return static_cast<double>(logits[token]) - max - log_total; }
  Token most_likely() const;  // of equal ones the lowest id
};

// Absolute error below 1e-6: the exponentials are computed in float32 and summed in float64.
LogSoftmax log_softmax(const float* logits, int size);
// In float64. The order of the sum depends only on the row. Throws std::invalid_argument for NaN and +inf.
LogSoftmax exact_log_softmax(const float* logits, int size);
inline double log_softmax(const float* logits, int size, Token token) { return log_softmax(logits, size)(token); }

struct TokenLogprob {
  Token token;
  double logprob;  // natural log
};

// Appends the `count` most likely tokens of a row (or all), most likely first; of equal ones the lower ids first.
void append_most_likely(const LogSoftmax& row, int count, std::vector<TokenLogprob>& tokens);

}  // namespace specdec::sampling
