// Token verification: its exact law by enumeration of every outcome, with controls that must fail.
#include <vector>

#include "check.h"
#include "enumerate.h"
#include "random_tables.h"
#include "sampling/verify_token.h"

using namespace specdec::sampling;
using namespace enumerate;

namespace {

constexpr double tolerance = 1e-12, below_one = 1.0 - 0x1p-53;

void check_exact(Family draft, Family target) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (int vocabulary = 2; vocabulary <= 4; ++vocabulary) {
      for (std::size_t k = 1; k <= 4; ++k) {
        const Model draft_model = draft(seed, vocabulary), target_model = target(seed, vocabulary);
        CHECK_NEAR(error_of_cycle(draft_model, draft_model, target_model, k, vocabulary), 0.0, tolerance);
      }
    }
  }
}

}  // namespace

TEST(exact_for_random_tables) { check_exact(full_draft, full_target); }
TEST(exact_with_zero_probabilities) {
  check_exact(sparse_draft, sparse_target);
  check_exact(sparse_draft, full_target);
  check_exact(full_draft, sparse_target);
}
TEST(exact_for_disjoint_supports) { check_exact(odd_draft, even_target); }
TEST(exact_for_one_hot_drafts) { check_exact(one_hot_draft, full_target); }
TEST(exact_for_one_hot_targets) { check_exact(full_draft, one_hot_target); }

TEST(exact_for_equal_tables_and_all_accepted) {
  check_exact(full_target, full_target);
  const Model both = full_target(1, 3);
  for (const auto& [sequence, weight] : cycle_law(both, both, both, 3, 3, verify_by_the_book)) {
    CHECK(sequence.size() == 4 && weight > 0.0);
  }
}

TEST(equal_rows_accept_every_uniform) {
  for (Token token = 0; token < 4; ++token) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      const double prob = table(seed, 4, full)({}).probability(token);
      CHECK(accepts(below_one, prob, prob));
    }
  }
}

// Acceptance probabilities .75, 1, .5, 1.
TEST(acceptance_golden) {
  const double draft[] = {0.4, 0.3, 0.2, 0.1}, target[] = {0.3, 0.45, 0.1, 0.15};
  const double acceptance[] = {0.75, 1.0, 0.5, 1.0};
  for (int token = 0; token < 4; ++token) {
    CHECK(accepts(acceptance[token] - 1e-12, draft[token], target[token]));
    CHECK(acceptance[token] == 1.0 || !accepts(acceptance[token] + 1e-12, draft[token], target[token]));
  }
}

TEST(drafting_nothing_draws_from_the_target) {
  const std::vector<Distribution> target = {normalised({1, 1, 2})};
  CHECK((verify_token({}, {}, target, {0.0}) == Verdict{0, 0}));
  CHECK((verify_token({}, {}, target, {0.25}) == Verdict{0, 1}));
  CHECK((verify_token({}, {}, target, {below_one}) == Verdict{0, 2}));
}

TEST(rows_and_uniforms_are_asked_for_no_further_than_needed) {
  const Token drafted[] = {0, 1, 0};
  const std::vector<Distribution> draft(3, normalised({1, 1}));
  const Distribution rows[] = {normalised({1, 0}), normalised({1, 0}), normalised({0, 1}), normalised({1, 1})};
  std::vector<int> rows_asked, uniforms_asked;
  Distribution scratch;
  const Verdict verdict = verify_token(
      drafted, 3, draft.data(),
      [&](int place) -> const Distribution& {
        rows_asked.push_back(place);
        return rows[place];
      },
      [&](int place) {
        uniforms_asked.push_back(place);
        return 0.5;
      },
      scratch);
  CHECK((verdict == Verdict{1, 0}));
  CHECK((rows_asked == std::vector<int>{0, 1}));
  CHECK((uniforms_asked == std::vector<int>{0, 1, 3}));
}

TEST(lengths_must_agree) {
  const std::vector<Distribution> one = {normalised({1, 1})}, two = {one[0], one[0]};
  CHECK_THROWS(verify_token({0}, two, two, {0.5, 0.5}), std::invalid_argument, "got 2, 2 and 2");
  CHECK_THROWS(verify_token({0}, one, one, {0.5, 0.5}), std::invalid_argument, "got 1, 1 and 2");
  CHECK_THROWS(verify_token({0}, one, two, {0.5}), std::invalid_argument, "K = 1 drafted tokens need");
}

// Negative controls: the enumeration must detect common mistakes.

TEST(control_argmax_drafted_but_softmax_recorded) {
  CHECK(error_of_cycle(one_hot_draft(1, 3), full_draft(1, 3), full_target(1, 3), 2, 3) > 0.02);
}

TEST(control_residual_skipped) {
  const Verify from_the_target = [](const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                                    const std::vector<Distribution>& target_probs,
                                    const std::vector<double>& uniforms) {
    Verdict verdict = verify_token(drafted, draft_probs, target_probs, uniforms);
    verdict.next_token = draw(target_probs[static_cast<std::size_t>(verdict.num_accepted)], uniforms.back());
    return verdict;
  };
  CHECK(error_of_cycle(full_draft(1, 3), full_draft(1, 3), full_target(1, 3), 2, 3, from_the_target) > 0.02);
}

// "Stop drafting when the drafted token was unlikely", decided after it was sampled: .55 instead of .5.
TEST(control_unlikely_token_dropped_after_it_was_sampled) {
  const Verify dropping = [](const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                             const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
    if (draft_probs[0].probability(drafted[0]) > 0.2) return verify_token(drafted, draft_probs, target_probs, uniforms);
    return verify_token({}, {}, {target_probs[0]}, {uniforms.back()});
  };
  const Model draft = constant({0.9, 0.1}), target = constant({0.5, 0.5});
  const Law cycle = cycle_law(draft, draft, target, 1, 2, dropping);
  CHECK_NEAR(extended(cycle, target, 2)[Sequence({0, 0})] + extended(cycle, target, 2)[Sequence({0, 1})], 0.55,
             tolerance);
  CHECK_NEAR(error_of_cycle(draft, draft, target, 1, 2, dropping), 0.025, tolerance);
  CHECK_NEAR(error_of_cycle(draft, draft, target, 1, 2), 0.0, tolerance);
}

// Uniforms in [0, 1) need `<`, not `<=`: for the N equally likely values 0, 1/N, .. (N-1)/N, and probabilities that are
// multiples of 1/N, the acceptance probability is exactly right with `<` and wrong with `<=`.
TEST(control_less_or_equal) {
  constexpr int grid = 8;
  const auto accepted = [](auto&& rule, double draft_prob, double target_prob) {
    int count = 0;
    for (int i = 0; i < grid; ++i) count += rule(static_cast<double>(i) / grid, draft_prob, target_prob) ? 1 : 0;
    return static_cast<double>(count) / grid;
  };
  const auto less_or_equal = [](double u, double draft_prob, double target_prob) {
    return u * draft_prob <= target_prob;
  };
  for (int eighths = 0; eighths <= grid; ++eighths) {
    const double draft_prob = 0.5, target_prob = draft_prob * eighths / grid;
    CHECK_NEAR(accepted(accepts, draft_prob, target_prob), static_cast<double>(eighths) / grid, 0.0);
    if (eighths < grid)
      CHECK(accepted(less_or_equal, draft_prob, target_prob) > static_cast<double>(eighths) / grid + 0.1);
  }
}

TEST(at_uniform_zero_no_token_of_probability_zero_comes_out) {
  int accepted_by_less_or_equal = 0;  // would be, with `<=`
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Distribution> draft = {table(seed, 4, full)({})};
    const std::vector<Distribution> target = {table(seed + 1000, 4, sparse)({}), table(seed + 2000, 4, sparse)({})};
    for (Token token = 0; token < 4; ++token) {
      const Sequence out = emitted({token}, verify_token({token}, draft, target, {0.0, 0.0}));
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(target[i].probability(out[i]) > 0.0);
      const double target_prob = target[0].probability(token);
      if (0.0 * draft[0].probability(token) <= target_prob && !(target_prob > 0.0)) ++accepted_by_less_or_equal;
    }
  }
  CHECK(accepted_by_less_or_equal > 100);
}

TEST_MAIN()
