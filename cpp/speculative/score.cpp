#include "speculative/score.h"

#include <cstddef>

#include "base/index.h"

namespace specdec {

void Score::add(const float* logits, int size) {
  const sampling::LogSoftmax row = sampling::exact_log_softmax(logits, size);
  sampling::append_most_likely(row, num_top_logprobs, top_logprobs);
  most_likely.push_back(row.most_likely());
  logprobs.push_back(row(tokens[logprobs.size() + 1]));
}

void Score::truncate(int count) {
  const auto kept = idx(count);
  if (kept >= logprobs.size()) return;
  top_logprobs.resize(top_logprobs.size() / logprobs.size() * kept);
  logprobs.resize(kept);
  most_likely.resize(kept);
}

}  // namespace specdec
