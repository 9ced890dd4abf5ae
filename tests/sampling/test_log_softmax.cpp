// log_softmax against its definition, and extreme rows.
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "sampling/log_softmax.h"
#include "sampling/uniforms.h"

using namespace specdec::sampling;

namespace {

double by_definition(const std::vector<float>& logits, Token token) {
  double total = 0.0;
  const double chosen = static_cast<double>(logits[static_cast<std::size_t>(token)]);
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - chosen);
  return -std::log(total);
}

double fast(const std::vector<float>& logits, Token token) { return log_softmax(logits.data(), static_cast<int>(logits.size()), token); }

}  // namespace

TEST(against_the_definition) {
  for (const int size : {1, 2, 15, 16, 17, 1023, 1024, 1025, 152000}) {
    for (const double spread : {0.0, 1.0, 20.0, 80.0}) {
      std::vector<float> logits;
      for (int i = 0; i < size; ++i) logits.push_back(static_cast<float>(spread * PhiloxUniforms(1, 0).uniform(i, 0, Purpose::draft)));
      for (const Token token : {0, size / 2, size - 1}) CHECK_NEAR(fast(logits, token), by_definition(logits, token), 1e-6);
    }
  }
}

TEST(extremes) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  CHECK_NEAR(fast({1000.0f, 1000.0f}, 0), -std::log(2.0), 1e-6);
  CHECK_NEAR(fast({3.0f, minus_infinity}, 0), 0.0, 1e-6);
  CHECK(fast({3.0f, minus_infinity}, 1) == -std::numeric_limits<double>::infinity());
  CHECK_NEAR(fast({0.0f, -500.0f}, 1), -500.0, 1e-6);
}

TEST_MAIN()
