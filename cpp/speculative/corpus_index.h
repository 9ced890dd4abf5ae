// An index (suffix array) of a text that does not change; many sequences share it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "speculative/text_index.h"

namespace specdec {

// The positions of a text, ordered by the max_depth tokens that follow them, then by position. Takes 8 bytes per token
// of the text and 4 per token of the vocabulary. A lookup takes about 100 steps of binary search.
class CorpusIndex final : public TextIndex {
 public:
  static constexpr Token end_of_document = -1;  // in a text; neither it nor anything after it is proposed

  // Sorts, which takes a second per million tokens. progress(share) is called now and then; if it returns false, throws
  // Cancelled.
  explicit CorpusIndex(std::vector<Token> text, const std::function<bool(double share)>& progress = {});
  // Uses the order of an earlier index of this text. Throws std::invalid_argument if it is not a permutation of the
  // positions; a permutation in the wrong order only makes poor proposals.
  CorpusIndex(std::vector<Token> text, std::vector<std::int32_t> order);

  // A match is a range of the order.
  Match find(const Token* tokens, int count) const override;
  // For a match that occurs very often, this is the best of a sample of continuations, evenly spaced in the order.
  Continuation best(const Match& match) const override;

  const std::vector<Token>& text() const { return text_; }
  const std::vector<std::int32_t>& order() const { return order_; }

 private:
  struct Group {
    std::int32_t first = 0, end = 0;  // of the part of a match's range that one token follows
  };
  Token token(std::int32_t place, int depth) const;
  Match range(const Token* tokens, int count) const;
  Group best_group(const Match& match) const;
  void find_starts();

  std::vector<Token> text_;
  std::vector<std::int32_t> order_;  // positions in text_
  std::vector<std::int32_t>
      starts_;  // [token + 1] where the positions of that first token start; [largest token + 2] the end
};

}  // namespace specdec
