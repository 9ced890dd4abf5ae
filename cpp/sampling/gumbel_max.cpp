#include "sampling/gumbel_max.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace specdec::sampling {

Token race(const Distribution& probs, const UniformSource& noise, std::int64_t position) {
  Token winner = probs.tokens.front();
  double winning_time = std::numeric_limits<double>::infinity();
  std::int32_t group = -1;
  PhiloxCounter high{};
  for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
    const Token token = probs.tokens[i];
    const double prob = probs.probs[i];
    const std::size_t member = static_cast<std::size_t>(token) % 4;
    if (token / 4 != group) {
      group = token / 4;
      high = noise.race_bits(position, group, RaceBits::high);
    }
    // E = -log(1 - u) >= u >= its high bits: nearly every token is seen to lose before the rest of it is needed.
    if (high[member] * 0x1p-32 >= winning_time * prob) continue;
    const double u = uniform53(high[member], noise.race_bits(position, group, RaceBits::low)[member]);
    const double time = -std::log1p(-u) / prob;
    if (time >= winning_time) continue;
    winning_time = time;
    winner = token;
  }
  return winner;
}

}  // namespace specdec::sampling
