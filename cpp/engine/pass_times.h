// What single passes of the models cost: the numbers that a prediction of the speedup starts from.
#pragma once

#include <vector>

#include "speculative/language_model.h"

namespace specdec {

struct PassTimes {
  double draft = 0.0;          // seconds of a draft pass over 1 token; 0 without a draft model
  std::vector<double> target;  // [n - 1] seconds of a target pass over n tokens, all rows of logits wanted
};

double median(std::vector<double> values);  // of at least one

// Median seconds of passes that append `num_tokens` tokens (those of `text` over and over) to the slot's cache and want
// `num_rows` rows; one more pass before them is not timed. The cache is left as it was, exceptions included.
double time_pass(LanguageModel& model, int slot, const std::vector<Token>& text, int num_tokens, int num_rows, int repeats);

}  // namespace specdec
