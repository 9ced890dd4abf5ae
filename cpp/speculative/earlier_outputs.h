// An index of finished outputs: later answers may repeat them.
#pragma once

#include <array>

#include "speculative/suffix_index.h"

namespace specdec {

// Holds the latest outputs, at most max_tokens tokens. They are kept in two halves: when the newer is full, the older
// is forgotten as a whole. A match does not go beyond an output's end.
class EarlierOutputs {
 public:
  static constexpr int max_tokens = 1 << 16;

  void add(const Token* tokens, int count);
  const std::array<SuffixIndex, 2>& halves() const { return halves_; }

 private:
  std::array<SuffixIndex, 2> halves_;  // the newer, the older
};

}  // namespace specdec
