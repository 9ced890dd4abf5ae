#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specdec {
namespace {

constexpr int slot = 0;

// The sum's order does not depend on anything but the row, so the result does not either.
void add_row(Score& score, const float* logits, int size, Token next) {
  const float* const highest = std::max_element(logits, logits + size);
  const double max = *highest;
  double total = 0.0;
  for (int i = 0; i < size; ++i) total += std::exp(static_cast<double>(logits[i]) - max);
  score.logprobs.push_back(static_cast<double>(logits[next]) - max - std::log(total));
  score.most_likely.push_back(static_cast<Token>(highest - logits));
}

void read(LanguageModel& model, Score& score) {
  const std::vector<Token>& tokens = score.tokens;
  const int num_rows = static_cast<int>(tokens.size()) - 1;
  const int most = std::min(model.batch_size(), model.row_capacity());
  for (int at = 0; at < num_rows; at += most) {
    const int count = std::min(most, num_rows - at);
    model.decode({{slot, tokens.data() + at, count, count}});
    for (int i = 0; i < count; ++i) {
      add_row(score, model.logits(i), model.vocabulary_size(), tokens[static_cast<std::size_t>(at + i) + 1]);
    }
  }
}

}  // namespace

Score score(LanguageModel& model, std::vector<Token> tokens) {
  Score score;
  score.tokens = std::move(tokens);
  try {
    read(model, score);
  } catch (...) {
    model.truncate(slot, 0);
    throw;
  }
  model.truncate(slot, 0);
  return score;
}

}  // namespace specdec
