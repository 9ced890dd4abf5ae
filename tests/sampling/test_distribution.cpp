// Sparse distributions: looking up, drawing by inverse CDF, and the residual.
#include <vector>

#include "check.h"
#include "sampling/distribution.h"

using namespace specdec::sampling;

namespace {

constexpr double below_one = 1.0 - 0x1p-53;

Distribution dense(const std::vector<double>& row) {
  Distribution out;
  out.set_dense(row.data(), static_cast<int>(row.size()));
  return out;
}

}  // namespace

TEST(probability_of_any_token) {
  const Distribution everything = dense({0.25, 0.25, 0.5});
  const Distribution block{{5, 6, 7}, {0.25, 0.5, 0.25}};
  const Distribution gaps{{2, 5, 1000000}, {0.25, 0.5, 0.25}};
  CHECK(everything.probability(0) == 0.25 && everything.probability(2) == 0.5);
  CHECK(everything.probability(-1) == 0.0 && everything.probability(3) == 0.0);
  CHECK(block.probability(4) == 0.0 && block.probability(5) == 0.25 && block.probability(6) == 0.5);
  CHECK(block.probability(7) == 0.25 && block.probability(8) == 0.0 && block.probability(0) == 0.0);
  CHECK(gaps.probability(2) == 0.25 && gaps.probability(5) == 0.5 && gaps.probability(1000000) == 0.25);
  CHECK(gaps.probability(3) == 0.0 && gaps.probability(6) == 0.0 && gaps.probability(1000001) == 0.0);
  CHECK(Distribution{}.probability(0) == 0.0);
}

TEST(filling_leaves_zeros_out) {
  Distribution d = dense({0.0, 0.5, 0.0, 0.5, 0.0});
  CHECK((d.tokens == std::vector<Token>{1, 3}));
  d.set_one_hot(9);
  CHECK((d.tokens == std::vector<Token>{9}) && (d.probs == std::vector<double>{1.0}));
}

TEST(draw_at_the_breakpoints) {
  const Distribution d{{3, 4, 8}, {0.25, 0.25, 0.5}};
  CHECK(draw(d, 0.0) == 3);
  CHECK(draw(d, 0.25 - 0x1p-54) == 3);
  CHECK(draw(d, 0.25) == 4);
  CHECK(draw(d, 0.5 - 0x1p-53) == 4);
  CHECK(draw(d, 0.5) == 8);
  CHECK(draw(d, below_one) == 8);
}

TEST(draw_where_the_cdf_ends_early) {
  const Distribution tenths = dense(std::vector<double>(10, 0.1));  // the CDF ends at 1 - 2^-53
  CHECK(draw(tenths, below_one) == 9);
  const Distribution short_sum{{1, 2}, {0.5, 0.4999999}};
  CHECK(draw(short_sum, below_one) == 2);
}

TEST(draw_never_returns_a_zero_probability_token) {
  const Distribution with_zeros{{0, 1, 2, 3}, {0.0, 0.5, 0.0, 0.0}};  // by hand: the setters leave zeros out
  for (const double u : {0.0, 0.25, 0.5, below_one}) CHECK(draw(with_zeros, u) == 1);
}

TEST(residual_golden) {
  Distribution out;
  residual(dense({0.3, 0.45, 0.1, 0.15}), dense({0.4, 0.3, 0.2, 0.1}), out);
  CHECK((out.tokens == std::vector<Token>{1, 3}));
  CHECK_NEAR(out.probs[0], 0.75, 1e-15);
  CHECK_NEAR(out.probs[1], 0.25, 1e-15);
}

TEST(residual_of_different_supports) {
  Distribution out;
  residual({{1, 4}, {0.5, 0.5}}, {{0, 2, 9}, {0.2, 0.3, 0.5}}, out);  // disjoint: all of the target
  CHECK((out.tokens == std::vector<Token>{1, 4}) && (out.probs == std::vector<double>{0.5, 0.5}));
  residual({{1, 4}, {0.5, 0.5}}, {{4}, {1.0}}, out);
  CHECK((out.tokens == std::vector<Token>{1}) && (out.probs == std::vector<double>{1.0}));
  residual({{4}, {1.0}}, {{1, 4}, {0.5, 0.5}}, out);
  CHECK((out.tokens == std::vector<Token>{4}) && (out.probs == std::vector<double>{1.0}));
}

TEST(an_empty_residual_is_the_target) {
  const Distribution target = dense({0.1, 0.2, 0.7});
  Distribution out;
  residual(target, target, out);
  CHECK(out.tokens == target.tokens && out.probs == target.probs);
  residual(target, {{0, 1, 2}, {0.1 + 1e-17, 0.2 + 4e-17, 0.7 + 2e-16}}, out);
  CHECK(out.tokens == target.tokens && out.probs == target.probs);
}

TEST(a_tiny_residual_is_normalised) {
  Distribution out;
  residual({{0, 1}, {0.5 + 0x1p-53, 0.5 - 0x1p-53}}, {{0, 1}, {0.5, 0.5}}, out);
  CHECK((out.tokens == std::vector<Token>{0}) && (out.probs == std::vector<double>{1.0}));
}

TEST(filling_reuses_the_capacity) {
  const Distribution target = dense(std::vector<double>(100, 0.01)), draft{{3}, {1.0}};
  Distribution out;
  residual(target, draft, out);
  const Token* tokens = out.tokens.data();
  const double* probs = out.probs.data();
  out.set_one_hot(1);
  residual(target, target, out);
  residual(target, draft, out);
  CHECK(out.tokens.data() == tokens && out.probs.data() == probs);
}

TEST_MAIN()
