// Every table of calibration loops against the scalar one, bit for bit. Usage: test_calibration_loops NAME.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernel_test.h"
#include "weights/mxfp6/kernels.h"

using namespace specdec::mxfp6;

namespace {

const CalibrationLoops& tested() { return check::tested(all_calibration_loops()); }

template <class Number>
std::vector<Number> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<Number> normal;
  std::vector<Number> x(static_cast<std::size_t>(count));
  for (Number& value : x) value = normal(random);
  return x;
}

template <class Number>
bool same_bits(const std::vector<Number>& a, const std::vector<Number>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(Number)) == 0;
}

}  // namespace

TEST(the_name_selects_the_table) {
  CHECK(tested().name == std::string(check::tested_name().compare(0, 3, "avx") == 0 ? "avx2" : "scalar"));
}

TEST(moments_have_equal_bits) {
  constexpr std::int64_t n = 19, k = 96;
  const std::vector<float> panels = random_numbers<float>(n * k, 1);
  std::vector<float> h = random_numbers<float>(k * k, 2), expected = h;
  for (std::int64_t row = 0; row < k; row += moment_rows) {
    tested().add_moments(panels.data(), n, k, row, h.data());
    calibration_loops_scalar.add_moments(panels.data(), n, k, row, expected.data());
  }
  CHECK(same_bits(h, expected));
}

TEST(elimination_has_equal_bits) {
  constexpr std::int64_t n = 64, begin = 32;
  std::vector<double> h = random_numbers<double>(n * n, 3), expected = h;
  for (std::int64_t row = 0; row < begin; ++row) {
    tested().eliminate(h.data(), n, begin, n, row);
    calibration_loops_scalar.eliminate(expected.data(), n, begin, n, row);
  }
  CHECK(same_bits(h, expected));
}

TEST(accumulation_has_equal_bits_in_either_order_of_the_matrix) {
  constexpr std::int64_t outputs = 5, count = 37;
  const std::vector<float> a = random_numbers<float>(outputs * count, 4),
                           x = random_numbers<float>(count * feedback_lanes, 5);
  const auto lanes_of = [](auto& values) { return reinterpret_cast<Lanes*>(values.data()); };
  for (const bool by_rows : {true, false}) {
    const StridedMatrix matrix = by_rows ? StridedMatrix{a.data(), count, 1} : StridedMatrix{a.data(), 1, outputs};
    std::vector<float> sums = random_numbers<float>(outputs * feedback_lanes, 6), expected = sums;
    tested().accumulate(matrix, outputs, reinterpret_cast<const Lanes*>(x.data()), count, lanes_of(sums));
    calibration_loops_scalar.accumulate(matrix, outputs, reinterpret_cast<const Lanes*>(x.data()), count,
                                        lanes_of(expected));
    CHECK(same_bits(sums, expected));
  }
}

KERNEL_TEST_MAIN()
