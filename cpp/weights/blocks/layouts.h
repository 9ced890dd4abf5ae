// How 32 weights of a row are stored in a file, for each stock type. In a header, so that code for one type contains
// only one layout.
#pragma once

#include <cstring>

#include "weights/blocks/format.h"
#include "weights/blocks/grids.h"

namespace specdec::blocks {

static inline std::uint16_t read16(const std::uint8_t* bytes) {
  std::uint16_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

static inline void set_scale(Stored32& w, const std::uint8_t* d, int code = 1) {
  w.d[0] = w.d[1] = read16(d);
  w.scale_code[0] = w.scale_code[1] = static_cast<std::int8_t>(code);
}
static inline void set_offset(Stored32& w, const std::uint8_t* m, int code = -1) {
  w.m = read16(m);
  w.offset_code[0] = w.offset_code[1] = static_cast<std::int8_t>(code);
}

// 4 bits per column of a block of 32: column i in the low half of byte i, column 16 + i in its high half.
static inline void set_nibbles(Stored32& w, const std::uint8_t* bytes) {
  for (int i = 0; i < 16; ++i) {
    w.code[i] = bytes[i] & 15;
    w.code[16 + i] = bytes[i] >> 4;
  }
}
// Adds one bit to every code: bit i of a little-endian number, shifted up by `to` bits.
static inline void add_single_bits(Stored32& w, const std::uint8_t* bytes, int to = 0) {
  for (int byte = 0; byte < 4; ++byte) {  // eight codes at once
    std::uint64_t codes;
    std::memcpy(&codes, w.code + 8 * byte, sizeof codes);
    codes |= spread.bits[bytes[byte]] << to;
    std::memcpy(w.code + 8 * byte, &codes, sizeof codes);
  }
}
// Adds `mask` of every shifted byte to every code, shifted up by `to` bits.
static inline void add_bits(Stored32& w, const std::uint8_t* bytes, int shift, int mask, int to = 0) {
  for (int i = 0; i < 32; ++i) w.code[i] = static_cast<std::uint8_t>(w.code[i] | (bytes[i] >> shift & mask) << to);
}

// Q4_K and Q5_K: d, dmin, then 6-bit scales and minima of 8 groups in 12 bytes.
static inline void set_k4_scales(Stored32& w, const std::uint8_t* block, int group) {
  const std::uint8_t* s = block + 4;
  set_scale(w, block, group < 4 ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4);
  set_offset(w, block + 2, group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4);
}

// Code n of the five in a byte of TQ1_0. The codes are the base-3 digits of byte / 256.
static inline std::uint8_t ternary(std::uint8_t byte, int n) {
  constexpr int powers[5] = {1, 3, 9, 27, 81};
  return static_cast<std::uint8_t>((byte * powers[n] & 255) * 3 >> 8);
}

template <Type type>
static inline void set_grid_codes(Stored32& w, const std::uint8_t* block, int part) {
  for (int eight = 0; eight < 4; ++eight) {
    const std::uint64_t codes = grid_codes<type>(grids(), block, part, eight);
    std::memcpy(w.code + 8 * eight, &codes, sizeof codes);
  }
  w.d[0] = w.d[1] = grid_d<type>(block);
  for (int half = 0; half < 2; ++half)
    w.scale_code[half] = static_cast<std::int8_t>(grid_scale<type>(block, part, half));
  if constexpr (type == Type::iq1_s) set_offset(w, block, grid_offset(block, part));
}

static inline Stored32 stored_in_file(Type type, const std::uint8_t* block, int part) noexcept {
  Stored32 w{};
  switch (type) {
    case Type::q1_0:  // d, then bit i of a little-endian number
      set_scale(w, block);
      add_single_bits(w, block + 2 + 4 * part);
      break;
    case Type::q4_0:
    case Type::iq4_nl:
      set_scale(w, block);
      set_nibbles(w, block + 2);
      break;
    case Type::q4_1:
      set_scale(w, block);
      set_offset(w, block + 2);
      set_nibbles(w, block + 4);
      break;
    case Type::q5_0:
      set_scale(w, block);
      set_nibbles(w, block + 6);
      add_single_bits(w, block + 2, 4);
      break;
    case Type::q5_1:
      set_scale(w, block);
      set_offset(w, block + 2);
      set_nibbles(w, block + 8);
      add_single_bits(w, block + 4, 4);
      break;
    case Type::q8_0:
      set_scale(w, block);
      std::memcpy(w.code, block + 2, sizeof w.code);
      break;
    case Type::iq4_xs: {  // d, 8 times 2 high bits of scales, 8 times 4 low bits, nibbles
      const int low = block[4 + part / 2] >> (4 * (part % 2)) & 15, high = block[2 + part / 4] >> (2 * (part % 4)) & 3;
      set_scale(w, block, (low | high << 4) - 32);
      set_nibbles(w, block + 8 + 16 * part);
      break;
    }
    case Type::mxfp4:  // an exponent, then nibbles as in Q4_0
      w.d[0] = w.d[1] = bfloat_of_e8m0(block[0]);
      w.scale_code[0] = w.scale_code[1] = 1;
      set_nibbles(w, block + 1);
      break;
    case Type::nvfp4:  // 4 scales; per group 8 bytes: column i in the low half of byte i, 8 + i in its high half
      for (int g = 0; g < 2; ++g) {
        const std::uint8_t* bytes = block + 4 + 16 * part + 8 * g;
        w.d[g] = halves_of_ue4m3.half[block[2 * part + g]];
        w.scale_code[g] = 1;
        for (int i = 0; i < 8; ++i) {
          w.code[16 * g + i] = bytes[i] & 15;
          w.code[16 * g + 8 + i] = bytes[i] >> 4;
        }
      }
      break;
    // 16 times (minimum, scale) in 4 bits each; per 128 columns 32 bytes, whose bit pairs are parts; d, dmin.
    case Type::q2_k:
      set_scale(w, block + 80);
      set_offset(w, block + 82);
      for (int g = 0; g < 2; ++g) {
        w.scale_code[g] = static_cast<std::int8_t>(block[2 * part + g] & 15);
        w.offset_code[g] = static_cast<std::int8_t>(block[2 * part + g] >> 4);
      }
      add_bits(w, block + 16 + part / 4 * 32, 2 * (part % 4), 3);
      break;
    case Type::q3_k:  // 32 bytes of the third bits, one part per bit; two bits as Q2_K; 16 scales in 12 bytes; d
      set_scale(w, block + 108);
      for (int g = 0; g < 2; ++g) {
        const int group = 2 * part + g;
        const int low = group < 8 ? block[96 + group] & 15 : block[96 + group - 8] >> 4;
        const int high = block[96 + 8 + group % 4] >> (2 * (group / 4)) & 3;
        w.scale_code[g] = static_cast<std::int8_t>((low | high << 4) - 32);
      }
      add_bits(w, block + 32 + part / 4 * 32, 2 * (part % 4), 3);
      add_bits(w, block, part, 1, 2);
      break;
    case Type::q4_k:  // d, dmin, scales; per 64 columns 32 bytes: the first part in the low halves
      set_k4_scales(w, block, part);
      add_bits(w, block + 16 + part / 2 * 32, 4 * (part % 2), 15);
      break;
    case Type::q5_k:  // d, dmin, scales; 32 bytes of the fifth bits, one part per bit; four bits as Q4_K
      set_k4_scales(w, block, part);
      add_bits(w, block + 48 + part / 2 * 32, 4 * (part % 2), 15);
      add_bits(w, block + 16, part, 1, 4);
      break;
    case Type::q6_k:  // per 128 columns: 64 bytes of low halves, 32 bytes of bit pairs, one part per pair; 16 scales; d
      set_scale(w, block + 208);
      for (int g = 0; g < 2; ++g) w.scale_code[g] = static_cast<std::int8_t>(block[192 + 2 * part + g]);
      add_bits(w, block + part / 4 * 64 + part % 2 * 32, part % 4 / 2 * 4, 15);
      add_bits(w, block + 128 + part / 4 * 32, 2 * (part % 4), 3, 4);
      break;
    case Type::q2_0:  // d, then four neighbours in a byte
      set_scale(w, block);
      for (int i = 0; i < 32; ++i)
        w.code[i] = static_cast<std::uint8_t>(block[2 + 8 * part + i / 4] >> (2 * (i % 4)) & 3);
      break;
    case Type::tq1_0:  // 32 bytes of parts 0-4, one part per digit; 16 bytes of half parts up to 14; 4 of the last; d
      set_scale(w, block + 52);
      for (int i = 0; i < 32; ++i) {
        const int column = 32 * part + i;
        w.code[i] = part < 5       ? ternary(block[i], part)
                    : column < 240 ? ternary(block[32 + i % 16], column / 16 - 10)
                                   : ternary(block[48 + i % 4], column / 4 - 60);
      }
      break;
    case Type::tq2_0:  // bit pairs as in Q2_K; d
      set_scale(w, block + 64);
      add_bits(w, block + part / 4 * 32, 2 * (part % 4), 3);
      break;
    case Type::iq3_s:
      set_grid_codes<Type::iq3_s>(w, block, part);
      break;
    case Type::iq3_xxs:
      set_grid_codes<Type::iq3_xxs>(w, block, part);
      break;
    case Type::iq2_s:
      set_grid_codes<Type::iq2_s>(w, block, part);
      break;
    case Type::iq2_xs:
      set_grid_codes<Type::iq2_xs>(w, block, part);
      break;
    case Type::iq2_xxs:
      set_grid_codes<Type::iq2_xxs>(w, block, part);
      break;
    case Type::iq1_s:
      set_grid_codes<Type::iq1_s>(w, block, part);
      break;
    case Type::iq1_m:
      set_grid_codes<Type::iq1_m>(w, block, part);
      break;
  }
  return w;
}

}  // namespace specdec::blocks
