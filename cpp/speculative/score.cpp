#include "speculative/score.h"

#include <algorithm>
#include <cstddef>

#include "base/index.h"

namespace specdec {

void Score::add(const float* logits, int size) {
  const sampling::LogSoftmax row = sampling::exact_log_softmax(logits, size);
  sampling::append_most_likely(row, num_top_logprobs, top_logprobs);
  most_likely.push_back(row.most_likely());
  logprobs.push_back(row(tokens[logprobs.size() + idx(first)]));
}

void Score::truncate(int num_read) {
  const auto kept = idx(std::max(0, num_read - num_unscored()));
  if (kept >= logprobs.size()) return;
  top_logprobs.resize(top_logprobs.size() / logprobs.size() * kept);
  logprobs.resize(kept);
  most_likely.resize(kept);
}

int Score::reusable(const Score* known, int num_cached) const {
  const int unscored = std::min(num_cached, num_unscored());
  if (known == nullptr || known->first > first || known->num_top_logprobs < num_top_logprobs) return unscored;
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), known->tokens.size()));
  const auto common = std::mismatch(tokens.begin(), end, known->tokens.begin()).first - tokens.begin();
  const int last_scored = known->num_unscored() + static_cast<int>(known->logprobs.size());
  return std::max(unscored, std::min({num_cached, last_scored, static_cast<int>(common) - 1}));
}

void Score::take(const Score& known, int num_read) {
  const int count = num_read - num_unscored();
  if (count <= 0) return;
  const auto skipped = static_cast<std::ptrdiff_t>(first - known.first);
  const auto begin = [skipped](const auto& values) { return values.begin() + skipped; };
  logprobs.assign(begin(known.logprobs), begin(known.logprobs) + count);
  most_likely.assign(begin(known.most_likely), begin(known.most_likely) + count);
  const std::size_t each = known.top_logprobs.size() / known.logprobs.size();
  top_logprobs.clear();
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    const auto row = known.top_logprobs.begin() + static_cast<std::ptrdiff_t>((i + idx(first - known.first)) * each);
    top_logprobs.insert(top_logprobs.end(), row,
                        row + static_cast<std::ptrdiff_t>(std::min(each, idx(num_top_logprobs))));
  }
}

}  // namespace specdec
