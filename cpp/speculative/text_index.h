// The interface of text indexes: where the last tokens of a sequence occurred in a text, and what followed them.
#pragma once

#include <cstdint>

#include "base/token.h"

namespace specdec {

class TextIndex {
 public:
  static constexpr int max_depth = 32;  // tokens of a match and its continuation

  virtual ~TextIndex() = default;

  // A string that occurs with a token after it. Only the index knows what the numbers mean.
  struct Match {
    std::int32_t first = 0, end = 0;
    int length = 0;  // tokens; 0: nothing matched
  };
  // The longest suffix of tokens [count] that occurs with a continuation, of at most max_depth - 1 tokens.
  virtual Match find(const Token* tokens, int count) const = 0;

  struct Continuation {
    Token token = -1;   // -1: none
    int count = 0;      // occurrences of the match that this token follows
    int of = 0;         // occurrences of the match that some token follows
    Match longer = {};  // the match followed by this token; it may have no continuation itself
  };
  virtual Continuation best(const Match& match) const = 0;
};

}  // namespace specdec
