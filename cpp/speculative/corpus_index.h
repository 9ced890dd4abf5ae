// An index of a text that does not change, which many sequences share: its suffix array.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "speculative/text_index.h"

namespace specdec {

// The positions of a text, ordered by the max_depth tokens that follow them, then by position. 8 bytes per token, and 4
// per token of the vocabulary. A lookup takes some 100 steps of binary search.
class CorpusIndex final : public TextIndex {
 public:
  static constexpr Token end_of_document = -1;  // in a text; it is never proposed, and nothing after it is

  // Sorts; a second per million tokens. progress(share) is called now and then; false stops with Cancelled.
  explicit CorpusIndex(std::vector<Token> text, const std::function<bool(double share)>& progress = {});
  // From the order that an earlier index of this text had. Throws std::invalid_argument if it is no permutation of the
  // positions; a permutation in another order makes poor proposals, nothing worse.
  CorpusIndex(std::vector<Token> text, std::vector<std::int32_t> order);

  // A match is a range of the order.
  Match find(const Token* tokens, int count) const override;
  // A match that occurs very often gives the best of some continuations, evenly spaced in the order.
  Continuation best(const Match& match) const override;

  const std::vector<Token>& text() const { return text_; }
  const std::vector<std::int32_t>& order() const { return order_; }

 private:
  struct Group {
    std::int32_t first = 0, end = 0;  // of a match's range: those that one token follows
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
