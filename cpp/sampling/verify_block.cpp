#include "sampling/verify_block.h"

#include <cstddef>

#include "base/index.h"

namespace specdec::sampling {

Verdict verify_block(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
  check_lengths(drafted.size(), draft_probs.size(), target_probs.size(), uniforms.size());
  Distribution excess, correction;
  return verify_block(
      drafted.data(), static_cast<int>(drafted.size()), draft_probs.data(),
      [&](int place) -> const Distribution& { return target_probs[idx(place)]; },
      [&](int place) { return uniforms[idx(place)]; }, excess, correction);
}

}  // namespace specdec::sampling
