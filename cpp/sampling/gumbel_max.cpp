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

void gumbel_order(const Distribution& probs, const UniformSource& noise, std::int64_t position,
                  std::vector<Preference>& order) {
  order.clear();  // until the end of this function, `share` is E / prob
  visit_ratios(
      probs, noise, position, [&] { return order.size() < idx(most_preferences) ? infinity : order.back().share; },
      [&](Token token, double ratio) {
        const auto is_before = [](double a, const Preference& b) { return a < b.share; };
        order.insert(std::upper_bound(order.begin(), order.end(), ratio, is_before), {token, ratio});
        if (order.size() > idx(most_preferences)) order.pop_back();
      });
  const double lowest = order.empty() ? 0.0 : order.front().share;
  double sum = 0.0;
  for (Preference& p : order) sum += p.share = p.share == lowest ? 1.0 : lowest / p.share;
  for (Preference& p : order) p.share /= sum;
}

}  // namespace specdec::sampling
