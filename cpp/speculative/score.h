// The log-probabilities of a text's tokens, each given the tokens before it.
#pragma once

#include <vector>

#include "base/token.h"
#include "sampling/log_softmax.h"

namespace specdec {

struct Score {
  std::vector<Token> tokens;
  // The first token that is scored, 1 .. tokens.size(): the first token of a text has no probability.
  int first = 1;
  int num_top_logprobs = 0;
  // Element i scores tokens[first + i] given the tokens before it.
  std::vector<double> logprobs;    // natural log of the softmax of the logits, in float64
  std::vector<Token> most_likely;  // the token with the highest logit; of equal ones the lowest id
  std::vector<sampling::TokenLogprob>
      top_logprobs;  // [logprobs.size()][num_top_logprobs, at most the vocabulary], as in Piece

  bool is_complete() const { return logprobs.size() + static_cast<std::size_t>(first) == tokens.size(); }
  // The number of leading tokens that need not be read for the sake of the rest: those before the first row of logits
  // that is needed.
  int num_unscored() const { return first - 1; }
  // Adds the next element. Throws std::invalid_argument for NaN and +inf.
  void add(const float* logits, int size);
  // Keeps the elements that are known once the first `num_read` tokens are read.
  void truncate(int num_read);

  // How many of the first `num_cached` tokens of a text need not be read again for this score: those before the first
  // scored one, and those whose elements `known`, the score of that text, has. Null: it has none.
  int reusable(const Score* known, int num_cached) const;
  // Takes these elements over. num_read: at most reusable().
  void take(const Score& known, int num_read);
};

}  // namespace specdec
