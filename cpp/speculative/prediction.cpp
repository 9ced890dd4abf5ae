#include "speculative/prediction.h"

#include <algorithm>

namespace specdec {
namespace {

AutoOptions::Acceptance prior_of(double level) {
  AutoOptions::Acceptance prior;
  prior.level = level;
  prior.slope = 1.0;
  return prior;
}

}  // namespace

Prediction::Prediction(const std::vector<Token>& prompt, const std::vector<Token>& text)
    : num_judged(static_cast<int>(prompt.size())), record(prior_of(0.0)), record_of_others(prior_of(0.5)) {
  const std::ptrdiff_t context = std::min<std::ptrdiff_t>(TextIndex::max_depth - 1, prompt.end() - prompt.begin());
  std::for_each(prompt.end() - context, prompt.end(), [&](Token token) { index.push(token); });
  for (const Token token : text) index.push(token);
}

}  // namespace specdec
