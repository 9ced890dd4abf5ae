// The predicted speedup: known values, and bad arguments.
#include <limits>

#include "check.h"
#include "sampling/speedup.h"

using specdec::sampling::predicted_speedup;

TEST(goldens) {
  CHECK_NEAR(predicted_speedup(0.80, 4, 1.8, 14.1), 2.6479, 1e-4);
  CHECK_NEAR(predicted_speedup(0.62, 4, 1.8, 14.1), 2.0521, 1e-4);
  CHECK_NEAR(predicted_speedup(0.80, 4, 1.8, 14.1, 14.1), predicted_speedup(0.80, 4, 1.8, 14.1), 0.0);
  CHECK_NEAR(predicted_speedup(0.50, 3, 1.0, 10.0, 17.0), 1.0, 1e-15);  // 2 tokens in 20
  CHECK_NEAR(predicted_speedup(1.0, 0, 5.0, 14.1), 1.0, 0.0);           // K = 0 is plain decoding
}

TEST(bad_arguments) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS(predicted_speedup(0.0, 4, 1, 10), std::invalid_argument, "rate is 0; it must be in (0, 1]");
  CHECK_THROWS(predicted_speedup(1.1, 4, 1, 10), std::invalid_argument, "rate is 1.1");
  CHECK_THROWS(predicted_speedup(nan, 4, 1, 10), std::invalid_argument, "rate is nan");
  CHECK_THROWS(predicted_speedup(0.5, -1, 1, 10), std::invalid_argument, "num_draft_tokens is -1; it must be >= 0");
  CHECK_THROWS(predicted_speedup(0.5, 4, -1, 10), std::invalid_argument, "t_draft is -1; it must be finite and >= 0");
  CHECK_THROWS(predicted_speedup(0.5, 4, 1, 0), std::invalid_argument, "t_target is 0; it must be finite and > 0");
  CHECK_THROWS(predicted_speedup(0.5, 4, 1, 10, inf), std::invalid_argument, "t_target_batch is inf");
}

TEST_MAIN()
