// The log-probabilities of a text's tokens, each given those before it.
#pragma once

#include <vector>

#include "base/token.h"
#include "speculative/language_model.h"

namespace specdec {

struct Score {
  std::vector<Token> tokens;
  // Element i is about tokens[i + 1], given tokens[0..i]: the first token of a text has no probability.
  std::vector<double> logprobs;    // natural log of the softmax of the logits, in float64
  std::vector<Token> most_likely;  // the token of the highest logit; the lowest id of equal ones
};

// Reads the tokens into slot 0, which must be empty, with passes that the model has room for; so memory does not grow with the length
// of the text, but for the results. Throws as LanguageModel::decode does; the slot is empty afterwards in any case.
Score score(LanguageModel& model, std::vector<Token> tokens);

}  // namespace specdec
