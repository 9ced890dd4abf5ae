#include "sampling/verify_token.h"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace specdec::sampling {

Verdict verify_token(const std::vector<Token>& drafted, const std::vector<Distribution>& draft_probs,
                     const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
  const std::size_t k = drafted.size();
  if (draft_probs.size() != k || target_probs.size() != k + 1 || uniforms.size() != k + 1) {
    throw std::invalid_argument("K = " + std::to_string(k) + " drafted tokens need K draft_probs, K + 1 target_probs" +
                                " and K + 1 uniforms; got " + std::to_string(draft_probs.size()) + ", " +
                                std::to_string(target_probs.size()) + " and " + std::to_string(uniforms.size()));
  }
  Distribution scratch;
  return verify_token(
      drafted.data(), static_cast<int>(k), draft_probs.data(),
      [&](int place) -> const Distribution& { return target_probs[static_cast<std::size_t>(place)]; },
      [&](int place) { return uniforms[static_cast<std::size_t>(place)]; }, scratch);
}

}  // namespace specdec::sampling
