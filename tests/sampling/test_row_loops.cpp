// Every table of loops over rows of logits against the scalar one, bit for bit. Usage: test_row_loops NAME.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernel_test.h"
#include "sampling/kernels.h"

using namespace specdec::sampling;

namespace {

const RowLoops& tested() { return check::tested(all_row_loops()); }

constexpr int sizes[] = {1, 15, 16, 17, 63, 64, 65, 128, 1000, 1024, 1025, 4096, 5000};

template <class Logit>
std::vector<Logit> random_row(int size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(-3.0, 4.0);
  std::vector<Logit> row(static_cast<std::size_t>(size));
  for (Logit& logit : row) logit = static_cast<Logit>(normal(random));
  for (std::size_t i = 3; i < row.size(); i += 17) row[i] = -std::numeric_limits<Logit>::infinity();
  return row;
}

template <class Number>
bool same_bits(Number a, Number b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class Logit>
void check_logit_loops(const LogitLoops<Logit>& loops, const LogitLoops<Logit>& expected) {
  for (const int size : sizes) {
    std::vector<Logit> row = random_row<Logit>(size, static_cast<unsigned>(size));
    const Logit max = *std::max_element(row.begin(), row.end());
    CHECK(same_bits(loops.mass(row.data(), size, static_cast<double>(max)),
                    expected.mass(row.data(), size, static_cast<double>(max))));
    for (const int depth : {1, 2, 7}) {
      const auto count = static_cast<std::size_t>(size / (maxima_lanes * depth) * maxima_lanes);
      std::vector<double> maxima(count, 1.0), expected_maxima(count, 2.0);
      CHECK(loops.maxima(row.data(), depth, maxima.data(), count));
      CHECK(expected.maxima(row.data(), depth, expected_maxima.data(), count));
      CHECK(maxima == expected_maxima);
      for (const Logit bad : {std::numeric_limits<Logit>::quiet_NaN(), std::numeric_limits<Logit>::infinity()}) {
        for (std::size_t i = 0; i < count * static_cast<std::size_t>(depth); i += 7) {
          const Logit good = std::exchange(row[i], bad);
          CHECK(!loops.maxima(row.data(), depth, maxima.data(), count));
          row[i] = good;
        }
      }
    }
    std::vector<Logit> finite = row;
    std::replace(finite.begin(), finite.end(), -std::numeric_limits<Logit>::infinity(), Logit{-3});
    for (const std::vector<Logit>* logits : {&row, &finite}) {
      const double temperature = logits == &row ? 0.01 : 0.8;
      std::vector<double> weights(row.size(), 1.0), expected_weights(row.size(), 2.0);
      const Weights sum = loops.weights(logits->data(), size, static_cast<double>(max), temperature, weights.data());
      const Weights expected_sum =
          expected.weights(logits->data(), size, static_cast<double>(max), temperature, expected_weights.data());
      CHECK(same_bits(sum.total, expected_sum.total) && sum.all_positive == expected_sum.all_positive);
      CHECK(std::memcmp(weights.data(), expected_weights.data(), weights.size() * sizeof(double)) == 0);
      CHECK(sum.all_positive == (*std::min_element(weights.begin(), weights.end()) > 0.0));
    }
    for (const bool has_nan : {false, true}) {
      if (has_nan) row[static_cast<std::size_t>(size / 2)] = std::numeric_limits<Logit>::quiet_NaN();
      for (const Logit floor : {-std::numeric_limits<Logit>::infinity(), Logit{-3}, max, max + 1}) {
        for (int begin = 0; begin < size; begin += 97) {
          CHECK(loops.next_block_above(row.data(), begin, size, floor) ==
                expected.next_block_above(row.data(), begin, size, floor));
        }
      }
    }
  }
}

}  // namespace

TEST(the_name_selects_the_table) {
  const std::string name = check::tested_name();
  const std::string expected = name.compare(0, 6, "avx512") == 0 ? "avx512"
                               : name.compare(0, 3, "avx") == 0  ? "avx2"
                                                                 : "scalar";
  CHECK(tested().name == expected);
}

TEST(loops_over_rows_of_either_type_have_equal_bits) {
  check_logit_loops(tested().f32, row_loops_scalar.f32);
  check_logit_loops(tested().f64, row_loops_scalar.f64);
}

TEST(probabilities_have_equal_bits) {
  for (const int size : sizes) {
    std::vector<double> weights = random_row<double>(size, 7), expected;
    for (double& weight : weights) weight = std::min(weight, 0.0) * 20.0;
    expected = weights;
    const double total = tested().exponentials(weights.data(), weights.size());
    CHECK(same_bits(total, row_loops_scalar.exponentials(expected.data(), expected.size())));
    tested().divide(weights.data(), weights.size(), total);
    row_loops_scalar.divide(expected.data(), expected.size(), total);
    CHECK(std::memcmp(weights.data(), expected.data(), weights.size() * sizeof(double)) == 0);
  }
}

TEST(log_softmax_has_equal_bits) {
  for (const int size : sizes) {
    const std::vector<float> row = random_row<float>(size, 8);
    const RoughMass mass = tested().rough_mass(row.data(), size),
                    expected = row_loops_scalar.rough_mass(row.data(), size);
    CHECK(mass.max == *std::max_element(row.begin(), row.end()));
    CHECK(same_bits(mass.max, expected.max) && same_bits(mass.total, expected.total));
  }
}

KERNEL_TEST_MAIN()
