// Numbers of a token in a slot (slot_text.h). Each kind has a type of its own, so that the compiler tells them from
// each other and from a place, which is an int.
#pragma once

#include <cstdint>

namespace specdec {

template <class Kind>
struct TokenNumber {
  std::int32_t value = 0;

  constexpr TokenNumber() = default;
  constexpr explicit TokenNumber(std::int32_t number) : value(number) {}

  constexpr TokenNumber& operator+=(int count) {
    value += count;
    return *this;
  }
  friend constexpr TokenNumber operator+(TokenNumber number, int count) { return number += count; }
  friend constexpr TokenNumber operator-(TokenNumber number, int count) { return number += -count; }
  friend constexpr int operator-(TokenNumber a, TokenNumber b) { return a.value - b.value; }
  friend constexpr bool operator==(TokenNumber a, TokenNumber b) { return a.value == b.value; }
  friend constexpr bool operator!=(TokenNumber a, TokenNumber b) { return a.value != b.value; }
  friend constexpr bool operator<(TokenNumber a, TokenNumber b) { return a.value < b.value; }
  friend constexpr bool operator<=(TokenNumber a, TokenNumber b) { return a.value <= b.value; }
  friend constexpr bool operator>(TokenNumber a, TokenNumber b) { return a.value > b.value; }
  friend constexpr bool operator>=(TokenNumber a, TokenNumber b) { return a.value >= b.value; }
};

using Position = TokenNumber<struct PositionKind>;  // a llama_pos
using Cell = TokenNumber<struct CellKind>;          // of the slot's, from 0

}  // namespace specdec
