#include "sampling/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace specdec::sampling {
namespace {

// exp(x) for x <= 0, relative error below 1e-7; 0 below -87. Branch-free, so that compilers vectorise loops over it:
// 2^n * polynomial(r), where x = n ln2 + r and |r| <= ln2 / 2.
inline float exp_not_positive(float x) {
  const float clamped = std::max(x, -87.0f);
  const float n = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f;  // to the nearest integer: 1.5 * 2^23
  const float r = (clamped - n * 0.693145752f) - n * 1.42860677e-6f;    // ln2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t exponent = (static_cast<std::int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &exponent, sizeof(power));
  return x < -87.0f ? 0.0f : p * power;
}

}  // namespace

double log_softmax(const float* logits, int size, Token token) {
  float max = logits[0];
  for (int i = 1; i < size; ++i) max = logits[i] > max ? logits[i] : max;
  // Sixteen sums side by side, each of at most 64 terms before it is widened.
  constexpr int lanes = 16, chunk = lanes * 64;
  double total = 0.0;
  for (int start = 0; start < size; start += chunk) {
    const int end = std::min(size, start + chunk);
    float sums[lanes] = {};
    int i = start;
    for (; i + lanes <= end; i += lanes) {
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += exp_not_positive(logits[i + lane] - max);
    }
    for (; i < end; ++i) total += static_cast<double>(exp_not_positive(logits[i] - max));
    for (const float sum : sums) total += static_cast<double>(sum);
  }
  return static_cast<double>(logits[token]) - static_cast<double>(max) - std::log(total);
}

}  // namespace specdec::sampling
