// The log-probability of one token under a row of raw logits. It is reported to callers, and not used for sampling.
#pragma once

#include "sampling/distribution.h"

namespace specdec::sampling {

// log(exp(logits[token]) / sum(exp(logits))), logits [size], finite or -inf. Absolute error below 1e-6: the exponentials
// are computed in float32 and summed in float64.
double log_softmax(const float* logits, int size, Token token);

}  // namespace specdec::sampling
