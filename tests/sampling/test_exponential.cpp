// exp(x) for x <= 0 against the standard library's.
#include <cmath>

#include "check.h"
#include "sampling/exponential.h"

using specdec::sampling::exp_not_positive;

TEST(against_the_library) {
  for (int i = 0; i <= 2000000; ++i) {
    const double x = -708.0 * (i / 2000000.0) * (i / 2000000.0);
    CHECK(std::fabs(exp_not_positive(x) / std::exp(x) - 1.0) < 1e-15);
  }
  for (int i = 0; i <= 200000; ++i) {
    const float x = -87.0f * static_cast<float>(i) / 200000.0f;
    CHECK(std::fabs(static_cast<double>(exp_not_positive(x)) / std::exp(static_cast<double>(x)) - 1.0) < 2e-7);
  }
}

TEST(ends) {
  CHECK(exp_not_positive(0.0) == 1.0 && exp_not_positive(0.0f) == 1.0f);
  CHECK(exp_not_positive(-708.5) == 0.0 && exp_not_positive(-INFINITY) == 0.0);
  CHECK(exp_not_positive(-88.0f) == 0.0f && exp_not_positive(-static_cast<float>(INFINITY)) == 0.0f);
}

TEST_MAIN()
