// Sampling by an exponential race, for drafter-invariant speculative decoding: Daliri, Musco and Suresh, "Coupling without
// communication and drafter-invariant speculative decoding", arXiv:2408.07978 (there as Gumbel sampling).
//
// The token of least E(token) / prob(token), with independent E ~ Exp(1), has the law `probs`. It is the same as
// argmax(log prob + G) with the Gumbel noise G = -log E, less the logarithms. Draft and target race over the same E, which
// depends on the seed, the position in the text and the token alone: similar distributions then choose the same token, and
// what the target chooses does not depend on what was drafted.
#pragma once

#include <cstdint>

#include "sampling/distribution.h"
#include "sampling/uniforms.h"

namespace specdec::sampling {

// position: index in the text of the token to be chosen. A tie goes to the lower token id.
Token race(const Distribution& probs, const UniformSource& noise, std::int64_t position);

}  // namespace specdec::sampling
