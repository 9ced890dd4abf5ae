// A text that the output is likely to be, and what the output so far says about it.
#pragma once

#include <vector>

#include "speculative/auto/acceptance_model.h"
#include "speculative/suffix_index.h"

namespace specdec {

// How often a source of copies is right about the next token, by its confidence. It learns from every token of the
// output, drafted or not, so it is a function of the text.
class CopyRecord {
 public:
  explicit CopyRecord(const AutoOptions::Acceptance& prior) : model_(prior) {}
  double probability(double confidence) const { return model_.probability(confidence); }
  void learn(double confidence, bool was_right) {
    model_.learn(confidence, was_right);
    model_.forget();
  }

 private:
  AcceptanceModel model_;
};

// Nobody knows whether a prediction is right, so every output starts from nothing: the first guess, which goes on after
// the whole prompt, is believed for some tokens; a wrong one is enough to wait for longer matches.
struct Prediction {
  Prediction(const std::vector<Token>& prompt, const std::vector<Token>& text);

  SuffixIndex index;  // the text, after the last tokens of the prompt: so its beginning is a continuation of the prompt
  int num_judged;     // tokens of the sequence that the records know
  CopyRecord record;  // of copies of the prediction
  CopyRecord record_of_others;  // of copies of other texts
};

}  // namespace specdec
