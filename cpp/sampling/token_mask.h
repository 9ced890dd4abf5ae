// A set of token ids as bits: the tokens that a constraint allows at one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

class TokenMask {
 public:
  // Bit t % 32 of word t / 32 belongs to token t. Ids past the last word are not in the set.
  const std::vector<std::uint32_t>& words() const noexcept { return words_; }
  bool contains(Token token) const noexcept {
    const auto word = idx(token) / 32;
    return token >= 0 && word < words_.size() && (words_[word] >> (token % 32) & 1u) != 0;
  }
  bool empty() const noexcept { return lowest_ < 0; }
  // The only token of the set; -1 if there are none or several.
  Token only_token() const noexcept { return is_single_ ? lowest_ : -1; }

  // Replaces the set: write(words) sets bits of words [(vocabulary_size + 31) / 32], which are zero before. Bits past
  // the vocabulary are dropped.
  template <class Write>
  void fill(int vocabulary_size, Write&& write) {
    words_.assign((idx(vocabulary_size) + 31) / 32, 0u);
    write(words_.data());
    summarise(vocabulary_size);
  }

 private:
  void summarise(int vocabulary_size) noexcept;

  std::vector<std::uint32_t> words_;
  Token lowest_ = -1;  // of the set; -1: it is empty
  bool is_single_ = false;
};

}  // namespace specdec::sampling
