#include "sampling/token_mask.h"

#include <algorithm>

namespace specdec::sampling {

void TokenMask::summarise(int vocabulary_size) noexcept {
  if (vocabulary_size % 32 != 0) words_.back() &= (1u << (vocabulary_size % 32)) - 1u;
  lowest_ = -1;
  is_single_ = false;
  const auto is_set = [](std::uint32_t word) { return word != 0; };
  const auto first = std::find_if(words_.begin(), words_.end(), is_set);
  if (first == words_.end()) return;
  int bit = 0;
  while ((*first >> bit & 1u) == 0) ++bit;
  lowest_ = static_cast<Token>((first - words_.begin()) * 32 + bit);
  is_single_ = (*first & (*first - 1)) == 0 && std::none_of(first + 1, words_.end(), is_set);
}

}  // namespace specdec::sampling
