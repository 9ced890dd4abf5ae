#include "sampling/gumbel_max.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "base/index.h"

namespace specdec::sampling {

Token gumbel_max(const Distribution& probs, const UniformSource& noise, std::int64_t position) {
  Token best = probs.tokens.front();
  double lowest = std::numeric_limits<double>::infinity();  // E / prob of the best token
  std::int32_t group = -1;
  PhiloxCounter high{};
  for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
    const Token token = probs.tokens[i];
    const double prob = probs.probs[i];
    const std::size_t member = idx(token) % 4;
    if (token / 4 != group) {
      group = token / 4;
      high = noise.gumbel_bits(position, group, GumbelBits::high);
    }
    // E = -log(1 - u) >= u >= the high bits of u. This bound rules out nearly every token without the low bits and the
    // log.
    if (high[member] * 0x1p-32 >= lowest * prob) continue;
    const double u = uniform53(high[member], noise.gumbel_bits(position, group, GumbelBits::low)[member]);
    const double ratio = -std::log1p(-u) / prob;
    if (ratio >= lowest) continue;
    lowest = ratio;
    best = token;
  }
  return best;
}

}  // namespace specdec::sampling
