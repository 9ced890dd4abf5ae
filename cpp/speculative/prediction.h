// A text that the output is likely to be, and what the output so far says about it.
#pragma once

#include <vector>

#include "speculative/auto/acceptance_model.h"
#include "speculative/suffix_index.h"

namespace specdec {

// How often a source of copies is right about the next token, by its confidence. It learns from every token of the
// output, drafted or not, so it depends only on the text.
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

// Nobody knows in advance whether a prediction is right, so every output starts from scratch: the first guess, that the
// prediction continues the whole prompt, is believed for some tokens; a single wrong token is enough to wait for longer
// matches.
struct Prediction {
  Prediction(const std::vector<Token>& prompt, const std::vector<Token>& text);

  // The last tokens of the prompt, then the predicted text, so that its beginning continues the prompt.
  SuffixIndex index;
  int num_judged;               // tokens of the sequence that the records have learnt from
  CopyRecord record;            // of copies of the prediction
  CopyRecord record_of_others;  // of copies of other texts
};

}  // namespace specdec
