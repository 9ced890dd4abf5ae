#include "sampling/gumbel_max.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/index.h"

namespace specdec::sampling {

namespace {

// Calls visit(token, E / prob) for the tokens whose ratio may be below bound(), in ascending order.
template <class Bound, class Visit>
void visit_ratios(const Distribution& probs, const UniformSource& noise, std::int64_t position, Bound&& bound,
                  Visit&& visit) {
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
    if (high[member] * 0x1p-32 >= bound() * prob) continue;
    const double u = uniform53(high[member], noise.gumbel_bits(position, group, GumbelBits::low)[member]);
    const double ratio = -std::log1p(-u) / prob;
    if (ratio < bound()) visit(token, ratio);
  }
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

Token gumbel_max(const Distribution& probs, const UniformSource& noise, std::int64_t position) {
  Token best = probs.tokens.front();
  double lowest = infinity;
  visit_ratios(
      probs, noise, position, [&] { return lowest; },
      [&](Token token, double ratio) {
        lowest = ratio;
        best = token;
      });
  return best;
}

void gumbel_order(const Distribution& probs, const UniformSource& noise, std::int64_t position, int count,
                  std::vector<Token>& order) {
  std::vector<std::pair<double, Token>> lowest;  // ascending; at most `count`
  visit_ratios(
      probs, noise, position, [&] { return lowest.size() < idx(count) ? infinity : lowest.back().first; },
      [&](Token token, double ratio) {
        const std::pair<double, Token> entry{ratio, token};
        lowest.insert(std::upper_bound(lowest.begin(), lowest.end(), entry), entry);
        if (lowest.size() > idx(count)) lowest.pop_back();
      });
  order.clear();
  for (const auto& [ratio, token] : lowest) order.push_back(token);
}

}  // namespace specdec::sampling
