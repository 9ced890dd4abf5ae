#include "sampling/log_softmax.h"

#include <algorithm>
#include <cmath>

#include "sampling/exponential.h"

namespace specdec::sampling {
SPECDEC_VECTOR_CLONES
double log_softmax(const float* logits, int size, Token token) {
  // One maximum and one sum per lane, for vectorisation. A float sum has at most 64 terms before it is added to the double.
  constexpr int lanes = 16, chunk = lanes * 64;
  float maxima[lanes];
  for (float& m : maxima) m = logits[0];
  float max = logits[0];
  int rest = 0;
  for (; rest + lanes <= size; rest += lanes) {
    for (int lane = 0; lane < lanes; ++lane) maxima[lane] = logits[rest + lane] > maxima[lane] ? logits[rest + lane] : maxima[lane];
  }
  for (; rest < size; ++rest) max = std::max(max, logits[rest]);
  for (const float m : maxima) max = std::max(max, m);
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
