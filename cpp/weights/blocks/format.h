// How the block types (base/weight_types.h) store their codes, scales and offsets.
#pragma once

#include <cstdint>

#include "base/weight_types.h"

namespace specdec::blocks {

using Type = BlockType;
using Format = WeightType;

static constexpr int count_block_types() {
  int count = 0;
  for (const WeightType& type : weight_types) count += type.group > 0 ? 1 : 0;
  return count;
}
constexpr int num_types = count_block_types();

// types: the block types in the order of the table. places: of a type in it, by number.
struct BlockTypes {
  Type types[num_types] = {};
  std::uint8_t places[128] = {};
  constexpr BlockTypes() {
    int count = 0, place = 0;
    for (const WeightType& type : weight_types) {
      if (type.group > 0) {
        types[count++] = static_cast<Type>(type.id);
        places[type.id] = static_cast<std::uint8_t>(place);
      }
      ++place;
    }
  }
};
static constexpr BlockTypes block_types;

static constexpr const Format& format_of(Type type) { return weight_types[block_types.places[id(type)]]; }

static constexpr std::int64_t row_bytes(Type type, std::int64_t k) {
  return k / format_of(type).columns * format_of(type).bytes;
}

constexpr std::int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr std::int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// The magnitudes of a grid, then the same negated; 0 is not used.
constexpr std::int8_t iq3_values[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr std::int8_t iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
constexpr std::int8_t iq1_values[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
// The table from stored numbers to codes; null: a code is the stored number plus an offset.
static constexpr const std::int8_t* table_of(Type type) {
  return type == Type::iq4_nl || type == Type::iq4_xs                           ? iq4_values
         : type == Type::mxfp4 || type == Type::nvfp4                           ? fp4_values
         : type == Type::iq3_xxs                                                ? iq3_values
         : type == Type::iq2_s || type == Type::iq2_xs || type == Type::iq2_xxs ? iq2_values
         : type == Type::iq1_m                                                  ? iq1_values
                                                                                : nullptr;
}
static constexpr bool has_table(Type type) { return table_of(type) != nullptr; }
static constexpr std::int8_t code_of(Type type, int stored) {
  return type == Type::q8_0 ? static_cast<std::int8_t>(stored)
         : has_table(type)  ? table_of(type)[stored]
                            : static_cast<std::int8_t>(format_of(type).lowest + format_of(type).step * stored);
}

// 32 weights of a row as stored in the file; in groups of 32, both halves have the same scale. d and m are F16 bits; d
// of MXFP4 is BF16 bits:
//   scale = d * unit * scale_code,  offset = -(m * unit * offset_code)
struct Stored32 {
  std::uint8_t code[32];
  std::uint16_t d[2], m;                      // d of columns 0-15, 16-31; they differ only in NVFP4
  std::int8_t scale_code[2], offset_code[2];  // of columns 0-15, 16-31
};
static constexpr bool has_bfloat_scales(Type type) { return type == Type::mxfp4; }
static constexpr bool has_group_halves(Type type) { return type == Type::nvfp4; }  // d per group

// Types whose products are integers for all of 32 columns (matmul.h). Q2_K, Q3_K, IQ1_M: two groups of 16 with integer
// scales and the same d, if the sum of 16 products fits 16 bits.
static constexpr bool adds_groups(Type type) {
  const Format& format = format_of(type);
  const int largest = format.highest > -format.lowest ? format.highest : -format.lowest;
  return format.group == 16 && !has_group_halves(type) && 16 * 127 * largest <= 32767;
}
// Of these, those whose code times scale code fits a byte: Q2_K 0..45; Q3_K -124..128, therefore negated.
static constexpr bool folds(Type type) { return type == Type::q2_k || type == Type::q3_k; }
static constexpr int lowest_folded(Type type) { return type == Type::q3_k ? -128 : 0; }

// The offset is an eighth of the scale, of either sign: kernels multiply 8 code +- 1 by an eighth of the scale.
static constexpr bool has_eighths(Type type) { return type == Type::iq1_s; }
constexpr int lowest_eighth = 8 * format_of(Type::iq1_s).lowest - 1, highest_eighth = -lowest_eighth;
// The offsets that remain.
static constexpr bool adds_offsets(Type type) { return format_of(type).offsets && !has_eighths(type); }

// BF16 bits of 2^(e - 128); F16 bits of half a UE4M3 number. llama.cpp reads these bytes in the same way.
static constexpr std::uint16_t bfloat_of_e8m0(int e) {
  return static_cast<std::uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7);
}
static constexpr std::uint16_t half_of_ue4m3(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (bits == 0x7F) return 0;
  if (exponent > 0) return static_cast<std::uint16_t>((exponent + 7) << 10 | mantissa << 7);
  const int top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;  // mantissa * 2^-10
  return static_cast<std::uint16_t>(mantissa == 0 ? 0 : (top + 5) << 10 | (mantissa << (10 - top) & 1023));
}
struct HalvesOfUe4m3 {
  std::uint16_t half[256] = {};
  constexpr HalvesOfUe4m3() {
    for (int bits = 0; bits < 256; ++bits) half[bits] = half_of_ue4m3(bits);
  }
};
static constexpr HalvesOfUe4m3 halves_of_ue4m3;

// Weights 32 part .. 32 part + 31 of a block. This is the reference for the layouts.
Stored32 stored(Type type, const std::uint8_t* block, int part) noexcept;

float unit_scale(Type type, const Stored32& stored, int half) noexcept;  // d * unit

struct Weights32 {
  std::int8_t code[32];
  float scale[2], offset[2];
};
Weights32 decode(Type type, const Stored32& stored) noexcept;
Weights32 decode(Type type, const std::uint8_t* block, int part) noexcept;

}  // namespace specdec::blocks
