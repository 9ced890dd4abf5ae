#include "sampling/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "sampling/exponential.h"

namespace specdec::sampling {
SPECDEC_VECTOR_CLONES
LogSoftmax log_softmax(const float* logits, int size) {
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
  return {logits, size, static_cast<double>(max), std::log(total)};
}

LogSoftmax exact_log_softmax(const float* logits, int size) {
  const double max = static_cast<double>(*std::max_element(logits, logits + size));
  double total = 0.0;
  for (int i = 0; i < size; ++i) total += std::exp(static_cast<double>(logits[i]) - max);
  if (!std::isfinite(total)) throw std::invalid_argument("logits contain NaN or +inf");  // or none is finite
  return {logits, size, max, std::log(total)};
}

Token LogSoftmax::most_likely() const { return static_cast<Token>(std::max_element(logits, logits + size) - logits); }

// One pass over the row: the tokens so far are kept in order, and nearly every logit is below the last of them.
void append_most_likely(const LogSoftmax& row, int count, std::vector<TokenLogprob>& tokens) {
  const auto first = static_cast<std::ptrdiff_t>(tokens.size());
  const auto kept = static_cast<std::size_t>(first + std::min(count, row.size));
  for (Token token = 0; token < row.size && count > 0; ++token) {
    const double logit = static_cast<double>(row.logits[token]);
    if (tokens.size() == kept) {
      if (logit <= tokens.back().logprob) continue;
      tokens.pop_back();
    }
    const auto is_less = [](double one, const TokenLogprob& other) { return one > other.logprob; };
    tokens.insert(std::upper_bound(tokens.begin() + first, tokens.end(), logit, is_less), TokenLogprob{token, logit});
  }
  std::for_each(tokens.begin() + first, tokens.end(), [&row](TokenLogprob& one) { one.logprob = row(one.token); });
}

}  // namespace specdec::sampling
