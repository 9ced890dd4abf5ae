#include "engine/pass_times.h"

#include <algorithm>

#include "base/index.h"
#include "speculative/stats.h"

namespace specdec {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

double time_pass(LanguageModel& model, int slot, const std::vector<Token>& text, int num_tokens, int num_rows,
                 int repeats) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < idx(num_tokens); ++i) tokens.push_back(text[i % text.size()]);
  // If the sequence fills the context, the pass is timed at an earlier position, where it fits.
  const int length = std::min(model.length(slot), model.end(slot) - num_tokens);
  model.truncate(slot, length);
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    double elapsed = 0.0;
    try {
      Stopwatch watch(elapsed);
      model.decode({{slot, tokens.data(), num_tokens, num_rows}});
    } catch (...) {
      model.truncate(slot, length);
      throw;
    }
    model.truncate(slot, length);
    if (i > 0) seconds.push_back(elapsed);
  }
  return median(std::move(seconds));
}

}  // namespace specdec
