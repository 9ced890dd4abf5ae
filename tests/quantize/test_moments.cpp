// The moments of calibration: the sums as written, in that order, for any number of threads.

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "quantize/moments.h"

namespace {

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) x = normal(generator);
  return result;
}

TEST(sums_of_products_below_the_diagonal) {
  for (const std::int64_t k : {32, 96, 544}) {
    for (const std::int64_t n : {1, 7, 128}) {
      const std::vector<float> x = random_numbers(n * k, 1), before = random_numbers(k * k, 2);
      for (const int num_threads : {1, 3}) {
        std::vector<float> h = before;
        specdec::add_moments(x.data(), n, k, h.data(), num_threads);
        std::int64_t wrong = 0;
        for (std::int64_t row = 0; row < k; ++row) {
          for (std::int64_t column = 0; column <= row; ++column) {
            float sum = 0.0F;
            for (std::int64_t t = 0; t < n; ++t)
              sum += x[static_cast<std::size_t>(t * k + row)] * x[static_cast<std::size_t>(t * k + column)];
            const auto at = static_cast<std::size_t>(row * k + column);
            wrong += h[at] != before[at] + sum ? 1 : 0;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace

TEST_MAIN()
