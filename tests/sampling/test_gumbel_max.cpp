// The Gumbel-max sampler: the law of its choices, with a control, and the counters of its noise.
#include <cmath>
#include <vector>

#include "check.h"
#include "sampling/gumbel_max.h"

using namespace specdec::sampling;

namespace {

Distribution distribution_of(std::vector<Token> tokens, std::vector<double> probs) {
  return {std::move(tokens), std::move(probs)};
}

// The reference: argmax(log p + G), evaluated for every token.
Token gumbel_choice(const Distribution& probs, const UniformSource& noise, std::int64_t position) {
  Token best = -1;
  double highest = -HUGE_VAL;
  for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
    const Token token = probs.tokens[i];
    const auto member = static_cast<std::size_t>(token % 4);
    const double u = uniform53(noise.gumbel_bits(position, token / 4, GumbelBits::high)[member],
                               noise.gumbel_bits(position, token / 4, GumbelBits::low)[member]);
    const double score = std::log(probs.probs[i]) - std::log(-std::log1p(-u));
    if (score > highest) highest = score, best = token;
  }
  return best;
}

// A source with given bits, the same at every position.
class GivenBits final : public UniformSource {
 public:
  explicit GivenBits(PhiloxCounter high) : high_(high) {}
  double uniform(std::int64_t, int, Purpose) const override { return 0.0; }
  PhiloxCounter gumbel_bits(std::int64_t, std::int32_t, GumbelBits half) const override {
    return half == GumbelBits::high ? high_ : PhiloxCounter{};
  }

 private:
  PhiloxCounter high_;
};

double chi_square(const Distribution& probs, const PhiloxUniforms& noise, int draws) {
  std::vector<double> counts(static_cast<std::size_t>(probs.tokens.back()) + 1);
  for (int position = 0; position < draws; ++position)
    counts[static_cast<std::size_t>(gumbel_max(probs, noise, position))] += 1.0;
  double statistic = 0.0;
  for (std::size_t i = 0; i < probs.tokens.size(); ++i) {
    const double expected = draws * probs.probs[i],
                 difference = counts[static_cast<std::size_t>(probs.tokens[i])] - expected;
    statistic += difference * difference / expected;
  }
  return statistic;
}

const Distribution six = distribution_of({1, 2, 7, 8, 900, 151935}, {0.4, 0.25, 0.2, 0.1, 0.04, 0.01});

}  // namespace

TEST(the_choice_is_distributed_as_probs) {
  CHECK(chi_square(six, PhiloxUniforms(1, 0), 100000) < 20.515);  // 5 degrees of freedom, alpha 0.001; fixed seed
}

TEST(control_chi_square_sees_another_distribution) {
  Distribution tilted = six;
  tilted.probs[0] += 0.01, tilted.probs[1] -= 0.01;
  double statistic = 0.0;
  std::vector<double> counts(6);
  for (int position = 0; position < 100000; ++position) {
    const Token token = gumbel_max(tilted, PhiloxUniforms(1, 0), position);
    for (std::size_t i = 0; i < 6; ++i) counts[i] += six.tokens[i] == token ? 1.0 : 0.0;
  }
  for (std::size_t i = 0; i < 6; ++i) statistic += std::pow(counts[i] - 1e5 * six.probs[i], 2) / (1e5 * six.probs[i]);
  CHECK(statistic > 40.0);
}

TEST(equals_the_reference) {
  Distribution wide;
  double total = 0.0;
  for (Token token = 0; token < 5000; token += 1 + token % 3) {
    wide.tokens.push_back(token);
    wide.probs.push_back(std::exp(-0.002 * token));
    total += wide.probs.back();
  }
  for (double& p : wide.probs) p /= total;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const PhiloxUniforms noise(seed, 0);
    CHECK(gumbel_max(wide, noise, 17) == gumbel_choice(wide, noise, 17));
    CHECK(gumbel_max(six, noise, 5) == gumbel_choice(six, noise, 5));
  }
}

// Shares are prob / E, as a part of the sum; the order is that of what would be chosen without the tokens before.
TEST(preferences_are_in_the_order_of_later_choices) {
  std::vector<Preference> order;
  Distribution wide;
  for (Token token = 0; token < 40; ++token) {
    wide.tokens.push_back(token);
    wide.probs.push_back(1.0 / 40.0);
  }
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const PhiloxUniforms noise(seed, 0);
    for (const Distribution& probs : {six, wide}) {
      gumbel_order(probs, noise, 7, order);
      CHECK(order.size() == std::min(probs.tokens.size(), static_cast<std::size_t>(most_preferences)));
      Distribution rest = probs;
      double sum = 0.0;
      for (const Preference& preference : order) {
        CHECK(preference.token == gumbel_max(rest, noise, 7));
        const auto member = static_cast<std::size_t>(preference.token % 4);
        const double u = uniform53(noise.gumbel_bits(7, preference.token / 4, GumbelBits::high)[member],
                                   noise.gumbel_bits(7, preference.token / 4, GumbelBits::low)[member]);
        const double weight = probs.probability(preference.token) / -std::log1p(-u);
        CHECK(preference.share <= order.front().share);
        if (preference.token == order.front().token) sum = weight / preference.share;
        CHECK_NEAR(preference.share * sum, weight, 1e-12 * weight);
        remove_token(rest, preference.token);
      }
      double shares = 0.0;
      for (const Preference& preference : order) shares += preference.share;
      CHECK_NEAR(shares, 1.0, 1e-12);
    }
  }
}

// What shares are for: of similar distributions, the first preference is the other's choice the more often the larger
// its share is.
TEST(a_larger_share_is_chosen_more_often) {
  const Distribution other = distribution_of({1, 2, 7, 8, 900, 151935}, {0.3, 0.35, 0.2, 0.1, 0.01, 0.04});
  double equal[2] = {0.0, 0.0}, all[2] = {0.0, 0.0};
  std::vector<Preference> order;
  for (int position = 0; position < 20000; ++position) {
    const PhiloxUniforms noise(3, 0);
    gumbel_order(six, noise, position, order);
    const std::size_t clear = order.front().share > 0.7 ? 1 : 0;
    all[clear] += 1.0;
    equal[clear] += order.front().token == gumbel_max(other, noise, position) ? 1.0 : 0.0;
  }
  CHECK(all[0] > 2000.0 && all[1] > 2000.0);
  CHECK(equal[1] / all[1] > 0.97);
  CHECK(equal[0] / all[0] < 0.9);
}

// P(equal choices) >= (1 - TV) / (1 + TV), with the total variation distance TV (Daliri et al., theorem 2).
TEST(similar_distributions_choose_alike) {
  const Distribution other = distribution_of({1, 2, 7, 8, 900, 151935}, {0.3, 0.35, 0.2, 0.1, 0.01, 0.04});
  const double tv = 0.5 * (0.1 + 0.1 + 0.03 + 0.03);
  int equal = 0;
  for (int position = 0; position < 20000; ++position) {
    const PhiloxUniforms noise(3, 0);
    equal += gumbel_max(six, noise, position) == gumbel_max(other, noise, position) ? 1 : 0;
  }
  CHECK(equal / 20000.0 > (1.0 - tv) / (1.0 + tv));
  CHECK(equal / 20000.0 < 1.0 - tv + 0.02);
}

TEST(seed_position_request_and_token_matter) {
  const Distribution even = distribution_of({0, 1, 2, 3, 4, 5, 6, 7}, std::vector<double>(8, 0.125));
  int seed = 0, position = 0, request = 0;
  for (int i = 0; i < 800; ++i) {
    const Token token = gumbel_max(even, PhiloxUniforms(1, 0), i);
    seed += token == gumbel_max(even, PhiloxUniforms(2, 0), i) ? 1 : 0;
    request += token == gumbel_max(even, PhiloxUniforms(1, 1), i) ? 1 : 0;
    position += token == gumbel_max(even, PhiloxUniforms(1, 0), i + (std::int64_t{1} << 32)) ? 1 : 0;
  }
  for (const int count : {seed, position, request})
    CHECK(count > 60 && count < 140);  // 100 expected, standard deviation 9.4
}

TEST(extremes_and_ties) {
  CHECK(gumbel_max(distribution_of({5}, {1.0}), PhiloxUniforms(1, 0), 0) == 5);
  const Distribution even = distribution_of({0, 1, 2, 3}, std::vector<double>(4, 0.25));
  CHECK(gumbel_max(even, GivenBits({0, 0, 0, 0}), 0) == 0);          // E = 0 for all: the lowest id
  CHECK(gumbel_max(even, GivenBits({9, 4, 4, 4}), 0) == 1);          // equal E
  CHECK(gumbel_max(even, GivenBits({~0u, ~0u, ~0u, ~0u}), 0) == 0);  // the largest E
  CHECK(gumbel_max(distribution_of({0, 1}, {5e-324, 1.0}), GivenBits({~0u, ~0u, 0, 0}), 0) == 1);  // E / p overflows
  CHECK(gumbel_max(distribution_of({2, 3}, {1.0, 5e-324}), GivenBits({0, 0, ~0u, 9}), 0) == 2);
  std::vector<Preference> order;
  gumbel_order(even, GivenBits({0, 0, 0, 0}), 0, order);  // infinite weights
  CHECK(order.size() == 4 && order.front().share == 0.25);
  gumbel_order(distribution_of({0, 1}, {5e-324, 1.0}), GivenBits({~0u, ~0u, 0, 0}), 0, order);
  CHECK(order.front().token == 1 && order.front().share == 1.0);
}

// The counter layout is fixed: a change would change the output of every seed.
TEST(gumbel_bits_are_philox_at_the_documented_counter) {
  const PhiloxUniforms uniforms(0x0123456789abcdef, 7);
  const PhiloxCounter key_low = philox4x32({0x2a, 0x1, (5 << 1 | 1) << 2 | 3, 7}, {0x89abcdef, 0x01234567});
  CHECK(uniforms.gumbel_bits(0x10000002a, 5, GumbelBits::low) == key_low);
  CHECK(uniforms.gumbel_bits(0x10000002a, 5, GumbelBits::high) != key_low);
}

TEST_MAIN()
