// Block verification: its exact law by enumeration of every outcome, with controls that must fail.
#include <vector>

#include "check.h"
#include "enumerate.h"
#include "random_tables.h"
#include "sampling/verify_block.h"

using namespace specdec::sampling;
using namespace enumerate;

namespace {

constexpr double tolerance = 1e-12, below_one = 1.0 - 0x1p-53;

Verdict block(const Sequence& drafted, const std::vector<Distribution>& draft_probs,
              const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
  return verify_block(drafted, draft_probs, target_probs, uniforms);
}

void check_exact(Family draft, Family target) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (int vocabulary = 2; vocabulary <= 4; ++vocabulary) {
      for (std::size_t k = 1; k <= (vocabulary < 4 ? 4u : 3u); ++k) {
        const Model draft_model = draft(seed, vocabulary), target_model = target(seed, vocabulary);
        CHECK_NEAR(error_of_cycle(draft_model, draft_model, target_model, k, vocabulary, block, block_cells_of), 0.0,
                   tolerance);
      }
    }
  }
}

double expected_tokens(const Law& cycle) {
  double mean = 0.0;
  for (const auto& [sequence, weight] : cycle) mean += weight * static_cast<double>(sequence.size());
  return mean;
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
  for (const auto& [sequence, weight] : cycle_law(both, both, both, 3, 3, block, block_cells_of)) {
    CHECK(sequence.size() == 4 && weight > 0.0);
  }
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<Distribution> rows(3, table(seed, 4, full)({}));
    CHECK((block({0, 3}, {rows[0], rows[1]}, rows, {below_one, below_one, 0.0}).num_accepted == 2));
  }
}

// Theorem 2 of the paper, pair by pair, and equality for a single draft.
TEST(accepts_at_least_as_many_as_token_verification) {
  double total = 0.0;
  for (const Family draft : {full_draft, sparse_draft, one_hot_draft}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      for (std::size_t k = 1; k <= 3; ++k) {
        const Model d = draft(seed, 3), t = full_target(seed, 3);
        const double gain = expected_tokens(cycle_law(d, d, t, k, 3, block, block_cells_of)) -
                            expected_tokens(cycle_law(d, d, t, k, 3, verify_by_the_book));
        CHECK(gain > -tolerance);
        if (k == 1) CHECK_NEAR(gain, 0.0, tolerance);
        total += gain;
      }
    }
  }
  CHECK(total > 1.0);
}

// The example of the paper's introduction: target (1/3, 2/3), draft (2/3, 1/3), independent of the past, two drafts.
// Token verification accepts 10/9 in expectation, block verification 11/9; no method can do better.
TEST(expected_number_golden) {
  const Model target = constant({1, 2}), draft = constant({2, 1});
  CHECK_NEAR(expected_tokens(cycle_law(draft, draft, target, 2, 2, verify_by_the_book)), 1.0 + 10.0 / 9.0, tolerance);
  CHECK_NEAR(expected_tokens(cycle_law(draft, draft, target, 2, 2, block, block_cells_of)), 1.0 + 11.0 / 9.0,
             tolerance);
}

TEST(drafting_nothing_draws_from_the_target) {
  const std::vector<Distribution> target = {normalised({1, 1, 2})};
  CHECK((verify_block({}, {}, target, {0.0}) == Verdict{0, 0}));
  CHECK((verify_block({}, {}, target, {0.25}) == Verdict{0, 1}));
  CHECK((verify_block({}, {}, target, {below_one}) == Verdict{0, 2}));
}

// A failed test does not end the search; a token of target probability zero does.
TEST(rows_are_asked_for_as_far_as_a_longer_prefix_is_possible) {
  const Token drafted[] = {0, 1, 0};
  const std::vector<Distribution> draft(3, normalised({1, 1}));
  const Distribution rows[] = {normalised({1, 3}), normalised({1, 0}), normalised({0, 1}), normalised({1, 1})};
  std::vector<int> asked;
  Distribution excess, correction;
  const auto row = [&](int place) -> const Distribution& {
    asked.push_back(place);
    return rows[place];
  };
  const Verdict verdict = verify_block(drafted, 3, draft.data(), row, [](int) { return 0.9; }, excess, correction);
  CHECK((asked == std::vector<int>{0, 1}));
  CHECK(verdict.num_accepted == 0 && verdict.next_token == 1);
}

TEST(buffers_are_reused) {
  const Token drafted[] = {0, 1, 0};
  const std::vector<Distribution> draft(3, normalised({2, 1, 1})), target(4, normalised({1, 2, 1}));
  Distribution excess, correction;
  excess.tokens.reserve(8), excess.probs.reserve(8), correction.tokens.reserve(8), correction.probs.reserve(8);
  const double* const a = excess.probs.data();
  const double* const b = correction.probs.data();
  for (int i = 0; i < 10; ++i) {
    const auto row = [&](int place) -> const Distribution& { return target[static_cast<std::size_t>(place)]; };
    (void)verify_block(
        drafted, 3, draft.data(), row, [&](int place) { return 0.1 * i * (place + 1) / 4.0; }, excess, correction);
    CHECK((excess.probs.data() == a && correction.probs.data() == b) ||
          (excess.probs.data() == b && correction.probs.data() == a));
  }
}

TEST(at_uniform_zero_no_token_of_probability_zero_comes_out) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Distribution> draft = {table(seed, 4, full)({}), table(seed + 500, 4, full)({})};
    const std::vector<Distribution> target = {table(seed + 1000, 4, sparse)({}), table(seed + 2000, 4, sparse)({}),
                                              table(seed + 3000, 4, sparse)({})};
    for (Token token = 0; token < 16; ++token) {
      const Sequence drafted = {token / 4, token % 4};
      const Sequence out = emitted(drafted, block(drafted, draft, target, {0.0, 0.0, 0.0}));
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(target[i].probability(out[i]) > 0.0);
    }
  }
}

TEST(lengths_must_agree) {
  const std::vector<Distribution> one = {normalised({1, 1})}, two = {one[0], one[0]};
  CHECK_THROWS(verify_block({0}, two, two, {0.5, 0.5}), std::invalid_argument, "got 2, 2 and 2");
  CHECK_THROWS(verify_block({0}, one, two, {0.5}), std::invalid_argument, "K = 1 drafted tokens need");
}

// Negative controls: the enumeration must detect common mistakes.

TEST(control_residual_of_token_verification) {
  const Verify wrong = [](const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                          const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
    Verdict verdict = verify_block(drafted, draft_probs, target_probs, uniforms);
    const auto kept = static_cast<std::size_t>(verdict.num_accepted);
    if (kept == drafted.size()) return verdict;
    Distribution rest;
    residual(target_probs[kept], draft_probs[kept], rest);
    verdict.next_token = draw(rest, uniforms.back());
    return verdict;
  };
  // The cells must also include the breakpoints of the wrong residual.
  const Cells cells = [](const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                         const std::vector<Distribution>& target_probs, int vocabulary) {
    auto all = block_cells_of(drafted, draft_probs, target_probs, vocabulary);
    std::vector<double> both;
    for (const Cell& cell : all.back()) both.push_back(cell.right);
    const auto of_token_verification = cells_of(drafted, draft_probs, target_probs, vocabulary);
    for (const Cell& cell : of_token_verification.back()) both.push_back(cell.right);
    all.back() = cells_between(both);
    return all;
  };
  // P(one draft kept) = 0.9 * 0.3; then the token is 0 for certain, not with probability 0.5 / 0.7.
  const auto row = [](const Sequence& prefix, std::vector<double> first, std::vector<double> later) {
    return normalised(prefix.empty() ? std::move(first) : std::move(later));
  };
  const Model target = [=](const Sequence& prefix) { return row(prefix, {0.54, 0.46, 0}, {0.5, 0.5, 0}); };
  const Model draft = [=](const Sequence& prefix) { return row(prefix, {0.9, 0.1, 0}, {0, 0.3, 0.7}); };
  CHECK_NEAR(error_of_cycle(draft, draft, target, 2, 3, block, cells), 0.0, tolerance);
  CHECK(error_of_cycle(draft, draft, target, 2, 3, wrong, cells) > 0.01);
}

TEST(control_first_rejection_ends_the_search) {
  const Verify wrong = [](const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                          const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
    for (std::size_t length = 0; length < drafted.size(); ++length) {
      // The verdict if every later test failed.
      std::vector<double> later = uniforms;
      for (std::size_t i = length + 1; i < drafted.size(); ++i) later[i] = below_one;
      const Verdict verdict = verify_block(drafted, draft_probs, target_probs, later);
      if (verdict.num_accepted <= static_cast<int>(length)) return verdict;
    }
    return verify_block(drafted, draft_probs, target_probs, uniforms);
  };
  CHECK(error_of_cycle(full_draft(1, 3), full_draft(1, 3), full_target(1, 3), 3, 3, wrong, block_cells_of) > 0.01);
}

TEST(control_argmax_drafted_but_softmax_recorded) {
  CHECK(error_of_cycle(one_hot_draft(1, 3), full_draft(1, 3), full_target(1, 3), 2, 3, block, block_cells_of) > 0.02);
}

TEST_MAIN()
