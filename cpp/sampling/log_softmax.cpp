#include "sampling/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "base/index.h"
#include "sampling/kernels.h"

namespace specdec::sampling {

LogSoftmax log_softmax(const float* logits, int size) {
  const RoughMass mass = row_loops().rough_mass(logits, size);
  return {logits, size, static_cast<double>(mass.max), std::log(mass.total)};
}

LogSoftmax exact_log_softmax(const float* logits, int size) {
  const double max = static_cast<double>(*std::max_element(logits, logits + size));
  double total = 0.0;
  for (int i = 0; i < size; ++i) total += std::exp(static_cast<double>(logits[i]) - max);
  if (!std::isfinite(total)) throw std::invalid_argument("logits contain NaN or +inf");  // or none is finite
  return {logits, size, max, std::log(total)};
}

Token LogSoftmax::most_likely() const { return static_cast<Token>(std::max_element(logits, logits + size) - logits); }

// One pass over the row: the best tokens so far are kept in order, and nearly every logit is below the last of them.
void append_most_likely(const LogSoftmax& row, int count, std::vector<TokenLogprob>& tokens) {
  const auto first = static_cast<std::ptrdiff_t>(tokens.size());
  const auto kept = idx(first + std::min(count, row.size));
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
