// What can be tested only from C++; test_transforms.py checks the numbers against an independent numpy version.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "sampling/transforms.h"
#include "sampling/uniforms.h"

using namespace specdec::sampling;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

SamplingParams off() {  // temperature 1, all other transforms off
  SamplingParams params;
  params.temperature = 1.0;
  params.top_k = 0;
  params.top_p = 1.0;
  params.min_p = 0.0;
  return params;
}

std::vector<float> random_logits(int size, std::uint64_t seed = 1) {
  std::vector<float> logits;
  for (int i = 0; i < size; ++i) {
    logits.push_back(static_cast<float>(10.0 * PhiloxUniforms(seed, 0).uniform(i, 0, Purpose::draft)));
  }
  return logits;
}

Distribution distribution_of(const SamplingParams& params, const std::vector<float>& logits,
                             const std::vector<Token>& history = {}) {
  Distribution out;
  Transforms(params).apply(logits.data(), static_cast<int>(logits.size()), history.data(),
                           static_cast<int>(history.size()), out);
  return out;
}

// Token ids of the k highest logits, ties to the lower id, by sorting the whole row.
std::vector<Token> best_by_sorting(const std::vector<float>& logits, int k) {
  std::vector<Token> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](Token a, Token b) {
    const float logit_a = logits[static_cast<std::size_t>(a)], logit_b = logits[static_cast<std::size_t>(b)];
    return logit_a != logit_b ? logit_a > logit_b : a < b;
  });
  ids.resize(static_cast<std::size_t>(k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool same(const Distribution& a, const Distribution& b) { return a.tokens == b.tokens && a.probs == b.probs; }

template <class Change>
void check_invalid(Change change, const std::string& text) {
  SamplingParams params;
  change(params);
  std::string message = "(accepted)";
  try {
    const Transforms transforms(params);
  } catch (const std::invalid_argument& error) {
    message = error.what();
  }
  if (message != text) check::fail(__FILE__, __LINE__, "expected \"" + text + "\", got: " + message);
}

}  // namespace

TEST(top_k_against_sorting) {
  std::vector<float> random = random_logits(1000), ascending = random, descending = random, few_values = random;
  std::sort(ascending.begin(), ascending.end());
  std::sort(descending.rbegin(), descending.rend());
  for (float& logit : few_values) logit = static_cast<float>(static_cast<int>(logit));
  for (const auto& logits : {random, ascending, descending, few_values, std::vector<float>(1000, 1.5f)}) {
    for (const int k : {1, 2, 3, 40, 499, 500, 501, 999, 1000}) {
      SamplingParams params = off();
      params.top_k = k;
      CHECK(distribution_of(params, logits).tokens == best_by_sorting(logits, k));
    }
  }
}

TEST(top_p_of_equal_logits_counts) {
  SamplingParams params = off();
  for (const int size : {1, 8, 1024, 4096}) {
    for (int eighths = 1; eighths < 8; ++eighths) {
      params.top_p = eighths / 8.0;
      const int expected = std::max(1, (size * eighths + 7) / 8);
      const Distribution d = distribution_of(params, std::vector<float>(static_cast<std::size_t>(size), 3.0f));
      CHECK(static_cast<int>(d.tokens.size()) == expected && d.tokens.back() == expected - 1);
    }
  }
}

TEST(top_p_looks_at_probabilities_before_temperature) {
  SamplingParams params = off();
  params.top_p = 0.75;
  for (const double temperature : {0.01, 1.0, 100.0}) {
    params.temperature = temperature;
    const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
    CHECK((distribution_of(params, logits).tokens == std::vector<Token>{1, 2}));
  }
}

TEST(float_and_double_rows_agree) {
  const std::vector<float> logits = random_logits(500);
  const std::vector<double> same_logits(logits.begin(), logits.end());
  SamplingParams params;
  for (const double repeat_penalty : {1.0, 1.3}) {
    params.repeat_penalty = repeat_penalty;
    const Token history[] = {3, 4, 4};
    Transforms transforms(params);
    Distribution from_float, from_double;
    transforms.apply(logits.data(), 500, history, 3, from_float);
    transforms.apply(same_logits.data(), 500, history, 3, from_double);
    CHECK(same(from_float, from_double));
    CHECK(transforms.argmax(logits.data(), 500, history, 3) == transforms.argmax(same_logits.data(), 500, history, 3));
  }
}

TEST(penalties_look_at_the_last_n_tokens) {
  SamplingParams params = off();
  params.presence_penalty = 1.0;
  const std::vector<float> logits = {0, 0, 0, 0};
  const std::vector<Token> history = {0, 1, 2, 2};
  const auto penalised = [&](int last_n) {
    params.penalty_last_n = last_n;
    const Distribution d = distribution_of(params, logits, history);
    std::vector<Token> below;
    for (std::size_t i = 0; i < 4; ++i) {
      if (d.probs[i] < d.probs[3]) below.push_back(d.tokens[i]);
    }
    return below;
  };
  CHECK(penalised(0).empty());
  CHECK((penalised(2) == std::vector<Token>{2}));
  CHECK((penalised(3) == std::vector<Token>{1, 2}));
  CHECK((penalised(-1) == std::vector<Token>{0, 1, 2}));
  CHECK((penalised(99) == std::vector<Token>{0, 1, 2}));
  params.logit_bias = {{3, 0.0}};  // the logits are adjusted anyway
  CHECK(penalised(0).empty());
}

TEST(penalties_golden_and_nothing_left_behind) {
  SamplingParams params = off();
  params.repeat_penalty = 2.0;
  params.frequency_penalty = 0.5;
  params.presence_penalty = 0.25;
  const float logits[] = {4.0f, -1.0f, 0.0f};
  const double expected[] = {4.0 / 2 - 3 * 0.5 - 0.25, -1.0 * 2 - 0.5 - 0.25, 0.0};
  const Token history[] = {0, 0, 1, 0};
  Transforms transforms(params);
  Distribution d;
  for (int call = 0; call < 3; ++call) {
    transforms.apply(logits, 3, history, 4, d);
    for (std::size_t i = 0; i < 3; ++i) CHECK_NEAR(std::log(d.probs[i] / d.probs[2]), expected[i], 1e-14);
  }
}

TEST(min_p_keeps_what_reaches_it) {
  SamplingParams params = off();
  params.min_p = 1.0;
  CHECK((distribution_of(params, {1, 2, 2, 1.99f}).tokens == std::vector<Token>{1, 2}));
  params.min_p = std::exp(-1.5) * (1 - 1e-9);
  CHECK((distribution_of(params, {0.5, 0.25, 2, 0.75}).tokens == std::vector<Token>{0, 2, 3}));
}

// Against the rows without top-p and min-p.
TEST(a_tail_is_what_top_p_and_min_p_leave_out) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const int top_k : {0, 12}) {
      for (const auto& [top_p, min_p] : {std::pair(0.3, 0.0), std::pair(1.0, 0.6), std::pair(0.3, 0.2)}) {
        const std::vector<float> logits = random_logits(60, seed);
        SamplingParams params = off();
        params.temperature = 0.7;
        params.top_k = top_k;
        SamplingParams wide = params;
        wide.top_k = 12;
        params.top_p = top_p;
        params.min_p = min_p;
        const Distribution kept = distribution_of(params, logits), all = distribution_of(wide, logits);
        Distribution row;
        Transforms(params).with_tail(12, 0.25).apply(logits.data(), 60, nullptr, 0, row);
        CHECK(row.tokens == all.tokens && kept.tokens.size() < all.tokens.size());
        double sum = 0.0;
        for (const Token token : all.tokens)
          sum += all.probability(token) * (kept.probability(token) > 0.0 ? 1.0 : 0.25);
        for (const Token token : all.tokens) {
          const double weight = kept.probability(token) > 0.0 ? 1.0 : 0.25;
          CHECK_NEAR(row.probability(token), weight * all.probability(token) / sum, 1e-14);
        }
      }
    }
  }
  // Where nothing is left out, and where XTC leaves out the best, the tail adds nothing and none of these.
  const std::vector<float> logits = {1, 2, 3, 2.9f};
  Distribution row;
  Transforms(off()).with_tail(2, 0.25).apply(logits.data(), 4, nullptr, 0, row);
  CHECK(same(row, distribution_of(off(), logits)));
  SamplingParams xtc = off();
  xtc.min_p = 0.5;
  xtc.xtc_probability = 1.0;
  Transforms(xtc).with_tail(40, 0.25).apply(logits.data(), 4, nullptr, 0, row, nullptr, 0.0);
  CHECK((row.tokens == std::vector<Token>{0, 1, 3}));
}

TEST(ids_beyond_the_row_are_ignored) {
  SamplingParams params = off();
  params.repeat_penalty = 2.0;
  params.logit_bias = {{3, 5.0}, {1000000, 5.0}};
  const std::vector<float> logits = {1, 2, 3};
  CHECK(same(distribution_of(params, logits, {3, 99, -1}), distribution_of(off(), logits)));
}

TEST(greedy) {
  SamplingParams params;
  params.temperature = 9.9e-6;
  CHECK(params.greedy() && distribution_of(params, {1, 3, 3, 2}).tokens == std::vector<Token>{1});
  CHECK(distribution_of(params, {1, 3, 3, 2}).probs == std::vector<double>{1.0});
  params.logit_bias = {{1, -infinity}};
  CHECK(distribution_of(params, {1, 3, 3, 2}).tokens == std::vector<Token>{2});
  params.presence_penalty = 5.0;
  CHECK(distribution_of(params, {1, 3, 3, 2}, {2}).tokens == std::vector<Token>{3});
  params.temperature = 1e-5;
  CHECK(!params.greedy());
}

TEST(minus_infinity_is_not_in_the_support) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  const Distribution d = distribution_of(off(), {minus_infinity, 1, minus_infinity, 1});
  CHECK((d.tokens == std::vector<Token>{1, 3}) && (d.probs == std::vector<double>{0.5, 0.5}));
}

TEST(what_underflows_is_not_in_the_support) {
  SamplingParams params = off();
  params.temperature = 1e-4;
  const Distribution d = distribution_of(params, {0.0f, 0.01f, 1.0f, -3e38f, 0.99f});
  CHECK((d.tokens == std::vector<Token>{2, 4}));
  for (const double prob : d.probs) CHECK(prob > 0.0);
}

TEST(bad_logits) {
  const float float_nan = std::numeric_limits<float>::quiet_NaN(),
              float_infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 0.8}) {
    for (const int top_k : {0, 1, 40}) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_k = top_k;
      std::vector<float> logits = random_logits(1000);
      CHECK_THROWS(distribution_of(params, {}), std::invalid_argument, "no finite logit among 0");
      CHECK_THROWS(distribution_of(params, std::vector<float>(7, -float_infinity)), std::invalid_argument,
                   "no finite logit among 7");
      logits[900] = -float_nan;
      CHECK_THROWS(distribution_of(params, logits), std::invalid_argument, "logits contain NaN (first at id 900)");
      logits[17] = float_nan;
      CHECK_THROWS(distribution_of(params, logits), std::invalid_argument, "logits contain NaN (first at id 17)");
      logits[5] = float_infinity;
      CHECK_THROWS(distribution_of(params, logits), std::invalid_argument, "logits contain +inf (first at id 5)");
      params.logit_bias = {{5, -infinity}};  // banning the token does not hide its bad logit
      CHECK_THROWS(distribution_of(params, logits), std::invalid_argument, "(first at id 5)");
    }
  }
  SamplingParams all_banned;
  all_banned.logit_bias = {{0, -infinity}, {1, -infinity}};
  CHECK_THROWS(distribution_of(all_banned, {1, 2}), std::invalid_argument, "no finite logit among 2");
}

TEST(usable_after_an_error) {
  const std::vector<float> good = random_logits(50);
  std::vector<float> bad = good;
  bad[20] = std::numeric_limits<float>::quiet_NaN();
  Transforms transforms{SamplingParams()};
  Distribution out;
  CHECK_THROWS(transforms.apply(bad.data(), 50, nullptr, 0, out), std::invalid_argument, "NaN");
  transforms.apply(good.data(), 50, nullptr, 0, out);
  CHECK(same(out, distribution_of(SamplingParams(), good)));
}

TEST(bad_parameters) {
  check_invalid([](auto& p) { p.temperature = -1; }, "temperature is -1; it must be a finite number of at least 0");
  check_invalid([](auto& p) { p.temperature = not_a_number; },
                "temperature is nan; it must be a finite number of at least 0");
  check_invalid([](auto& p) { p.temperature = infinity; },
                "temperature is inf; it must be a finite number of at least 0");
  check_invalid([](auto& p) { p.top_k = -1; }, "top_k is -1; it must be a whole number from 0 to 2147483647 (0: off)");
  check_invalid([](auto& p) { p.top_p = 0; }, "top_p is 0; it must be a number above 0 and at most 1");
  check_invalid([](auto& p) { p.top_p = 1.5; }, "top_p is 1.5; it must be a number above 0 and at most 1");
  check_invalid([](auto& p) { p.top_p = not_a_number; }, "top_p is nan; it must be a number above 0 and at most 1");
  check_invalid([](auto& p) { p.min_p = -0.1; }, "min_p is -0.1; it must be a number of at least 0 and at most 1");
  check_invalid([](auto& p) { p.min_p = 1.1; }, "min_p is 1.1; it must be a number of at least 0 and at most 1");
  check_invalid([](auto& p) { p.repeat_penalty = 0; },
                "repeat_penalty is 0; it must be a number of at least 1e-06 and at most 1000000");
  check_invalid([](auto& p) { p.frequency_penalty = not_a_number; },
                "frequency_penalty is nan; it must be a number of at least -1000000 and at most 1000000");
  check_invalid([](auto& p) { p.presence_penalty = infinity; },
                "presence_penalty is inf; it must be a number of at least -1000000 and at most 1000000");
  check_invalid([](auto& p) { p.penalty_last_n = -2; },
                "penalty_last_n is -2; it must be a whole number from -1 to 2147483647 (-1: all, 0: off)");
  check_invalid([](auto& p) { p.dry.multiplier = -1; },
                "dry_multiplier is -1; it must be a number of at least 0 and at most 1000000");
  check_invalid([](auto& p) { p.dry.base = 0.9; },
                "dry_base is 0.9; it must be a number of at least 1 and at most 1000000");
  check_invalid([](auto& p) { p.dry.allowed_length = -1; },
                "dry_allowed_length is -1; it must be a whole number from 0 to 2147483647");
  check_invalid([](auto& p) { p.dry.penalty_last_n = -2; },
                "dry_penalty_last_n is -2; it must be a whole number from -1 to 2147483647 (-1: all, 0: off)");
  check_invalid([](auto& p) { p.logit_bias = {{-1, 0.0}}; },
                "a token of logit_bias is -1; it must be a whole number from 0 to 2147483647");
  check_invalid([](auto& p) { p.logit_bias = {{3, not_a_number}}; },
                "logit_bias[3] is nan; it must be finite, or -inf to ban the token");
  check_invalid([](auto& p) { p.logit_bias = {{3, infinity}}; },
                "logit_bias[3] is inf; it must be finite, or -inf to ban the token");
}

TEST(nothing_is_allocated_in_the_steady_state) {
  std::vector<std::vector<float>> rows;
  for (std::uint64_t seed = 0; seed < 8; ++seed) rows.push_back(random_logits(5000, seed));
  const std::vector<Token> history(100, 3);
  for (const int top_k : {0, 40}) {
    SamplingParams params;
    params.top_k = top_k;
    params.repeat_penalty = 1.1;
    params.logit_bias = {{7, 1.0}};
    for (Transforms transforms : {Transforms(params), Transforms(params).with_tail(40, 0.1)}) {
      Distribution out;
      const auto all_rows = [&] {
        for (const auto& row : rows) transforms.apply(row.data(), 5000, history.data(), 100, out);
      };
      all_rows();
      const int before = allocations::count;
      all_rows();
      CHECK(allocations::count == before);
    }
  }
}

// A mask.

namespace {

TokenMask every_third(int vocabulary) {
  TokenMask mask;
  mask.fill(vocabulary, [&](std::uint32_t* words) {
    for (int token = 1; token < vocabulary; token += 3) words[token / 32] |= 1u << (token % 32);
  });
  return mask;
}

}  // namespace

TEST(a_mask_comes_before_penalties_and_truncation) {
  for (const int size : {5, 100, 1000}) {
    const TokenMask mask = every_third(size);
    std::vector<float> logits = random_logits(size), masked = logits;
    for (int i = 0; i < size; ++i) {
      if (i % 3 != 1) masked[static_cast<std::size_t>(i)] = -INFINITY;
    }
    const std::vector<Token> history = {1, 4, 2};
    std::vector<SamplingParams> settings(5, off());
    settings[1].top_k = 2;
    settings[2].top_p = 0.6;
    settings[3].repeat_penalty = 1.5, settings[3].top_k = 3, settings[3].min_p = 0.1;
    settings[4].temperature = 0.0;
    for (const SamplingParams& params : settings) {
      Transforms transforms(params);
      Distribution out;
      transforms.apply(logits.data(), size, history.data(), 3, out, &mask);
      CHECK(same(out, distribution_of(params, masked, history)));
      CHECK(transforms.argmax(logits.data(), size, history.data(), 3, &mask) ==
            transforms.argmax(masked.data(), size, history.data(), 3));
    }
  }
}

TEST(tokens_that_a_mask_does_not_know_are_forbidden) {
  const std::vector<float> logits = random_logits(100);
  Distribution out;
  const TokenMask mask = every_third(40);
  Transforms(off()).apply(logits.data(), 100, nullptr, 0, out, &mask);
  CHECK(out.tokens.size() == 13 && out.tokens.back() == 37);
}

TEST(a_mask_does_not_hide_invalid_logits) {
  const TokenMask mask = every_third(10);
  for (const double invalid : {not_a_number, infinity}) {
    std::vector<float> logits = random_logits(10);
    logits[2] = static_cast<float>(invalid);
    Distribution out;
    CHECK_THROWS(Transforms(off()).apply(logits.data(), 10, nullptr, 0, out, &mask), std::invalid_argument,
                 "logits contain");
  }
}

TEST(a_ban_applies_from_the_shortest_history_that_it_fits) {
  const std::vector<float> logits = {0.0f, 0.0f, 0.0f};
  TokenRules rules;
  rules.banned = {{0, 1}, {2}};
  Transforms transforms(off(), rules);
  const auto support = [&](const std::vector<Token>& history) {
    Distribution out;
    transforms.apply(logits.data(), 3, history.data(), static_cast<int>(history.size()), out);
    return out.tokens;
  };
  CHECK((support({}) == std::vector<Token>{0, 1}));
  CHECK((support({0}) == std::vector<Token>{0}));
  CHECK((support({1}) == std::vector<Token>{0, 1}));
  CHECK((support({1, 0}) == std::vector<Token>{0}));
  CHECK((support({0, 1}) == std::vector<Token>{0, 1}));
}

TEST(an_early_ban_ends_at_its_length) {
  const std::vector<float> logits = {0.0f, 0.0f};
  TokenRules rules;
  rules.early_bans = {{{1}, 2}};
  Transforms transforms(off(), rules);
  const std::vector<Token> history = {0, 0, 0};
  for (int length = 0; length <= 3; ++length) {
    Distribution out;
    transforms.apply(logits.data(), 2, history.data(), length, out);
    CHECK(out.tokens.size() == (length < 2 ? 1u : 2u));
  }
}

// All four tokens have a quarter. At this threshold, all but the least likely (of equals, the last) are left out; with
// one token that reaches the threshold, nothing is.
TEST(xtc_counts_tokens_at_the_threshold) {
  SamplingParams params = off();
  params.xtc_probability = 1.0;
  const auto support = [&](double threshold, const std::vector<float>& logits) {
    params.xtc_threshold = threshold;
    Distribution out;
    Transforms(params).apply(logits.data(), static_cast<int>(logits.size()), nullptr, 0, out, nullptr, 0.0);
    return out.tokens;
  };
  const std::vector<float> equal(4, 1.0f);
  CHECK((support(0.25, equal) == std::vector<Token>{3}));
  CHECK((support(0.26, equal) == std::vector<Token>{0, 1, 2, 3}));
  CHECK((support(0.5, {1.0f, 1.0f}) == std::vector<Token>{1}));
  const std::vector<float> one_likely = {std::log(8.0f), 0.0f, 0.0f};
  CHECK((support(0.5, one_likely) == std::vector<Token>{0, 1, 2}));
  CHECK((support(0.05, one_likely) == std::vector<Token>{2}));
}

TEST(a_mask_that_leaves_nothing_is_told_apart) {
  std::vector<float> logits = random_logits(10);
  Distribution out;
  const TokenMask nothing;
  CHECK_THROWS(Transforms(off()).apply(logits.data(), 10, nullptr, 0, out, &nothing), NoTokenLeft, "no finite logit");
  logits[1] = logits[4] = logits[7] = -INFINITY;
  const TokenMask mask = every_third(9);
  CHECK_THROWS(Transforms(off()).argmax(logits.data(), 10, nullptr, 0, &mask), NoTokenLeft, "no finite logit");
}

TEST_MAIN()
