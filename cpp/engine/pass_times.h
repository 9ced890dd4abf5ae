// Times single passes of the models, for predictions of the speedup.
#pragma once

#include <vector>

#include "speculative/language_model.h"

namespace specdec {

struct PassTimes {
  double draft = 0.0;          // seconds of a draft pass over 1 token; 0 without a draft model
  std::vector<double> target;  // [n - 1] seconds of a target pass over n tokens, with all rows of logits
};

double median(std::vector<double> values);  // values must not be empty

// Median seconds of passes that append `num_tokens` tokens (`text`, repeated) to the slot's cache and compute
// `num_rows` rows, after one pass that is not timed. The cache is unchanged afterwards, also after exceptions.
double time_pass(LanguageModel& model, int slot, const std::vector<Token>& text, int num_tokens, int num_rows,
                 int repeats);

}  // namespace specdec
