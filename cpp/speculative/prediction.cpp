#include "speculative/prediction.h"

#include <algorithm>

namespace specdec {
namespace {

// Confidences of copies say how often copies were right in other texts. A prediction is right or wrong as a whole, so
// the first guess is doubted a little, and the first verdicts count more.
AutoOptions::Acceptance prior() {
  AutoOptions::Acceptance options;
  options.level = -1.0, options.level_variance = 3.0;
  options.slope = 1.0;
  return options;
}

}  // namespace

Prediction::Prediction(const std::vector<Token>& prompt, const std::vector<Token>& text)
    : num_judged(static_cast<int>(prompt.size())), record(prior()), record_of_others(prior()) {
  const std::ptrdiff_t context = std::min<std::ptrdiff_t>(TextIndex::max_depth - 1, prompt.end() - prompt.begin());
  std::for_each(prompt.end() - context, prompt.end(), [&](Token token) { index.push(token); });
  for (const Token token : text) index.push(token);
}

}  // namespace specdec
