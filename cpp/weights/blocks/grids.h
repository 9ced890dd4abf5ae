// The types whose codes are entries of a grid: IQ1, IQ2 and IQ3. An entry has 8 neighbouring codes (IQ3: 4), to which
// the file adds signs. The grids are constants of ggml, which this folder does not include, so the user of such a type
// sets them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/blocks/format.h"

namespace specdec::blocks {

// Stored codes, one byte each, the first in the lowest byte; all positive.
struct Grids {
  std::uint64_t iq1[2048], iq2_s[1024], iq2_xs[512], iq2_xxs[256];
  std::uint32_t iq3_s[512], iq3_xxs[256];
};
void set_grids(const Grids& grids) noexcept;  // call once, before any weights of these types are read
const Grids& grids() noexcept;

static constexpr bool has_grid(Type type) { return format_of(type).are_in_grid; }

// Little-endian.
static inline std::uint32_t read_bytes(const std::uint8_t* at, int count) {
  std::uint32_t value = 0;
  __builtin_memcpy(&value, at, static_cast<std::size_t>(count));
  return value;
}

// Spreads bit i of a number to byte i, 0 or 1. If only 7 bits are stored, the eighth makes their sum even.
struct Spread {
  std::uint64_t bits[256] = {}, even[128] = {};
  constexpr Spread() {
    for (unsigned number = 0; number < 256; ++number) {
      unsigned sum = 0;
      for (unsigned i = 0; i < 8; ++i) {
        bits[number] |= static_cast<std::uint64_t>(number >> i & 1) << (8 * i);
        sum += number >> i & 1;
      }
      if (sum % 2 == 0) even[number & 127] = bits[number];
    }
  }
};
static constexpr Spread spread;

// Columns 32 part + 8 eight .. + 7 of a block, as stored codes.
template <Type type>
static inline std::uint64_t grid_codes(const Grids& grids, const std::uint8_t* block, int part, int eight) {
  const auto four = [&](const std::uint32_t* grid, const std::uint8_t* low, int high, int i) {
    return static_cast<std::uint64_t>(grid[low[i] | (high >> i & 1) << 8]) << (32 * (i % 2));
  };
  if constexpr (type == Type::iq3_s) {  // d, 64 bytes, their ninth bits, 32 bytes of signs, 4 of scales
    const std::uint8_t* low = block + 2 + 8 * part;
    const int high = block[66 + part], signs = block[74 + 4 * part + eight];
    const std::uint64_t codes = four(grids.iq3_s, low, high, 2 * eight) | four(grids.iq3_s, low, high, 2 * eight + 1);
    return codes ^ spread.bits[signs] * 15;
  } else if constexpr (type == Type::iq3_xxs) {  // d, 64 bytes, per part 4 times 7 bits of signs, 4 bits of scale
    const std::uint8_t* low = block + 2 + 8 * part;
    const std::uint32_t signs = read_bytes(block + 66 + 4 * part, 4) >> (7 * eight) & 127;
    const std::uint64_t codes = four(grids.iq3_xxs, low, 0, 2 * eight) | four(grids.iq3_xxs, low, 0, 2 * eight + 1);
    return codes | spread.even[signs] << 3;
  } else if constexpr (type == Type::iq2_s) {  // d, 32 bytes, 32 of signs, 4 times 2 high bits per part, scales
    const int low = block[2 + 4 * part + eight], high = block[66 + part] >> (2 * eight) & 3;
    return grids.iq2_s[low | high << 8] | spread.bits[block[34 + 4 * part + eight]] << 2;
  } else if constexpr (type == Type::iq2_xs) {  // d, 32 times 9 bits and 7 of signs, scales
    const std::uint32_t word = read_bytes(block + 2 + 8 * part + 2 * eight, 2);
    return grids.iq2_xs[word & 511] | spread.even[word >> 9] << 2;
  } else if constexpr (type == Type::iq2_xxs) {  // d, per part 4 bytes, 4 times 7 bits of signs, 4 bits of scale
    const std::uint8_t* at = block + 2 + 8 * part;
    return grids.iq2_xxs[at[eight]] | spread.even[read_bytes(at + 4, 4) >> (7 * eight) & 127] << 2;
  } else if constexpr (type == Type::iq1_s) {  // d, 32 bytes, per part 4 times 3 high bits, scale, sign of the offset
    const std::uint32_t high = read_bytes(block + 34 + 2 * part, 2) >> (3 * eight) & 7;
    return grids.iq1[block[2 + 4 * part + eight] | high << 8];
  } else {  // IQ1_M: 32 bytes, half as many of 3 high bits and the sign of an eighth; 16 scales and d in 8 bytes
    const unsigned high = block[32 + 2 * part + eight / 2] >> (4 * (eight % 2)) & 15u;
    return grids.iq1[block[4 * part + eight] | (high & 7) << 8] | (high >> 3) * 0x0404040404040404u;
  }
}

// Bits of d, and of the scale of columns 32 part + 16 half .. + 15.
template <Type type>
static inline std::uint16_t grid_d(const std::uint8_t* block) {
  if constexpr (type != Type::iq1_m) return static_cast<std::uint16_t>(read_bytes(block, 2));
  const std::uint8_t* s = block + 48;  // the high halves of four bytes
  return static_cast<std::uint16_t>(s[1] >> 4 | (s[3] & 0xF0) | (s[5] & 0xF0) << 4 | (s[7] & 0xF0) << 8);
}
template <Type type>
static inline int grid_scale(const std::uint8_t* block, int part, int half) {
  const auto odd = [](std::uint32_t bits, std::uint32_t mask) { return 2 * static_cast<int>(bits & mask) + 1; };
  switch (type) {
    case Type::iq3_s:
      return odd(read_bytes(block + 106 + part / 2, 1) >> (4 * (part % 2)), 15);
    case Type::iq3_xxs:
      return odd(read_bytes(block + 66 + 4 * part, 4) >> 28, 15);
    case Type::iq2_s:
      return odd(read_bytes(block + 74 + part, 1) >> (4 * half), 15);
    case Type::iq2_xs:
      return odd(read_bytes(block + 66 + part, 1) >> (4 * half), 15);
    case Type::iq2_xxs:
      return odd(read_bytes(block + 2 + 8 * part + 4, 4) >> 28, 15);
    case Type::iq1_s:  // in eighths, like the offset
      return 8 * odd(read_bytes(block + 34 + 2 * part, 2) >> 12, 7);
    default:
      return odd(read_bytes(block + 48 + part / 2 * 2, 2) >> (6 * (part % 2) + 3 * half), 7);
  }
}
// offset_code of IQ1_S.
static inline int grid_offset(const std::uint8_t* block, int part) {
  const int eighth = grid_scale<Type::iq1_s>(block, part, 0) / 8;
  return (block[35 + 2 * part] & 0x80) != 0 ? eighth : -eighth;
}

}  // namespace specdec::blocks
