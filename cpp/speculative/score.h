// The log-probabilities of a text's tokens, each given the tokens before it.
#pragma once

#include <vector>

#include "base/token.h"
#include "sampling/log_softmax.h"

namespace specdec {

struct Score {
  std::vector<Token> tokens;
  int num_top_logprobs = 0;
  // Element i scores tokens[i + 1] given tokens[0..i]; the first token of a text has no probability.
  std::vector<double> logprobs;    // natural log of the softmax of the logits, in float64
  std::vector<Token> most_likely;  // the token with the highest logit; of equal ones the lowest id
  std::vector<sampling::TokenLogprob>
      top_logprobs;  // [logprobs.size()][num_top_logprobs, at most the vocabulary], as in Piece

  bool is_complete() const { return logprobs.size() + 1 == tokens.size(); }
  // Adds the next element. Throws std::invalid_argument for NaN and +inf.
  void add(const float* logits, int size);
  // Keeps the first `count` elements.
  void truncate(int count);
};

}  // namespace specdec
