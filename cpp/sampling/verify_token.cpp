#include "sampling/verify_token.h"

#include <cstddef>
#include <stdexcept>
#include <string>

#include "base/index.h"

namespace specdec::sampling {

void check_lengths(std::size_t drafted, std::size_t draft_probs, std::size_t target_probs, std::size_t uniforms) {
  if (draft_probs == drafted && target_probs == drafted + 1 && uniforms == drafted + 1) return;
  throw std::invalid_argument("K = " + std::to_string(drafted) +
                              " drafted tokens need K draft_probs, K + 1 target_probs" + " and K + 1 uniforms; got " +
                              std::to_string(draft_probs) + ", " + std::to_string(target_probs) + " and " +
                              std::to_string(uniforms));
}

Verdict verify_token(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
  check_lengths(drafted.size(), draft_probs.size(), target_probs.size(), uniforms.size());
  Distribution scratch;
  return verify_token(
      drafted.data(), static_cast<int>(drafted.size()), draft_probs.data(),
      [&](int place) -> const Distribution& { return target_probs[idx(place)]; },
      [&](int place) { return uniforms[idx(place)]; }, scratch);
}

}  // namespace specdec::sampling
