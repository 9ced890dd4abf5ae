// The log-probability of one token under a raw row of logits: what a caller is shown, never what is sampled from.
#pragma once

#include "sampling/distribution.h"

namespace specdec::sampling {

// log(exp(logits[token]) / sum(exp(logits))), logits [size], finite or -inf. Absolute error below 1e-6: the exponentials
// are single precision, their sum is double.
double log_softmax(const float* logits, int size, Token token);

}  // namespace specdec::sampling
