// Gumbel-max sampling, for drafter-invariant speculative decoding: Daliri, Musco and Suresh, "Coupling without
// communication and drafter-invariant speculative decoding", arXiv:2408.07978.
//
// argmax(log prob + G) over the tokens, with independent Gumbel noise G, is distributed as `probs`. With G = -log E and
// E ~ Exp(1) that is argmin(E / prob), which needs fewer logarithms. E depends only on the seed, the token's position
// in the sequence and the token id, so draft and target use the same E: similar distributions usually choose the same
// token, and the target's choice does not depend on what was drafted.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/uniforms.h"

namespace specdec::sampling {

// position: index in the sequence of the token to choose. Ties go to the lower token id.
Token gumbel_max(const Distribution& probs, const UniformSource& noise, std::int64_t position);
// A token, and prob / E as a share of its sum over all tokens that are listed: how clearly the noise prefers it, as a
// probability says where nothing is drawn.
struct Preference {
  Token token;
  double share;
};
// So many are enough for shares that more would hardly change.
constexpr int most_preferences = 16;
// The first most_preferences tokens in the order of E / prob, or all: the choice, then what would be chosen without it,
// and so on.
void gumbel_order(const Distribution& probs, const UniformSource& noise, std::int64_t position,
                  std::vector<Preference>& order);

}  // namespace specdec::sampling
