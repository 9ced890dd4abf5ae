#include "speculative/earlier_outputs.h"

#include <algorithm>

namespace specdec {

void EarlierOutputs::add(const Token* tokens, int count) {
  constexpr int end_of_output = -1;  // no token, so it is never proposed
  constexpr int half = max_tokens / 2;
  const int kept = std::min(count, half - 1);
  if (kept <= 0) return;
  if (halves_[0].length() + kept + 1 > half) {
    std::swap(halves_[0], halves_[1]);
    halves_[0].clear();
  }
  for (int i = count - kept; i < count; ++i) halves_[0].push(tokens[i]);
  halves_[0].push(end_of_output);
}

}  // namespace specdec
