// The quantized weight types of stock GGUF files, all of which our kernels multiply: Q8_0, Q4_0 and similar types, the
// K-quants, the I-quants, ternary types, MXFP4 and NVFP4.
//
// A row of k weights is a row of blocks of 32, 64, 128 or 256 weights, in the layouts of llama.cpp's ggml-common.h. All
// these types express the same thing in different packings: per group of 16 or 32 weights
//   weight = scale * code + offset
// with a small integer code, and scale and offset exact in f32 (an F16 number times an integer of at most 8 bits and a
// power of two, or a power of two).
//
//   type    block  bytes  code         scale              offset
//   Q1_0      128     18  -1, 1        d                  -
//   Q2_0       64     18  -1..2        d                  -
//   TQ1_0     256     54  -1..1        d                  -            5 codes in a byte
//   TQ2_0     256     66  -1..2        d                  -
//   Q4_0       32     18  -8..7        d                  -
//   Q4_1       32     20  0..15        d                  m
//   Q5_0       32     22  -16..15      d                  -
//   Q5_1       32     24  0..31        d                  m
//   Q8_0       32     34  -128..127    d                  -
//   IQ4_NL     32     18  -127..113    d                  -            16 codes from a table
//   IQ4_XS    256    136  -127..113    d * (6 bits - 32)  -            the same table
//   MXFP4      32     17  -12..12      2^(8 bits - 128)   -            twice E2M1: 0, 1, 2, 3, 4, 6, 8, 12
//   NVFP4      64     36  -12..12      UE4M3 / 2          -            the same codes, groups of 16
//   Q2_K      256     84  0..3         d * 4 bits         -dmin * 4 bits    groups of 16
//   Q3_K      256    110  -4..3        d * (6 bits - 32)  -                 groups of 16
//   Q4_K      256    144  0..15        d * 6 bits         -dmin * 6 bits
//   Q5_K      256    176  0..31        d * 6 bits         -dmin * 6 bits
//   Q6_K      256    210  -32..31      d * int8           -                 groups of 16
// and types in which the codes of 8 or 4 neighbours are an entry of a grid (grids.h); odd = 1, 3, 5, ...
//   IQ1_S     256     50  -1..1        d * odd (3 bits)   +- scale / 8
//   IQ1_M     256     56  -9..9        d / 8 * odd (3)    -            8 (-1..1) +- 1; groups of 16
//   IQ2_XXS   256     66  -43..43      d / 8 * odd (4)    -            +- 8, 25, 43
//   IQ2_XS    256     74  -43..43      d / 8 * odd (4)    -            +- 8, 25, 43; groups of 16
//   IQ2_S     256     82  -43..43      d / 8 * odd (4)    -            +- 8, 25, 43; groups of 16
//   IQ3_XXS   256     98  -62..62      d / 4 * odd (4)    -            +- 4, 12, 20, 28, 36, 44, 52, 62
//   IQ3_S     256    110  -15..15      d * odd (4)        -            odd
#pragma once

#include <cstdint>

namespace specdec::blocks {

enum class Type {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  iq4_nl,
  iq4_xs,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q1_0,
  mxfp4,
  nvfp4,
  q2_0,
  tq1_0,
  tq2_0,
  iq3_s,
  iq3_xxs,
  iq2_s,
  iq2_xs,
  iq2_xxs,
  iq1_s,
  iq1_m
};
constexpr int num_types = 25;

struct Format {
  const char* name;
  int columns, bytes;   // of a block
  int group;            // weights that share a scale
  int lowest, highest;  // code
  bool offsets;
  int bits;        // of a stored code: (code - lowest) / step, or a place in a table (table_of); Q8_0: the signed byte
  int step = 1;    // between codes
  float unit = 1;  // of scales and offsets; a power of two
};

constexpr Format formats[num_types] = {
    {"Q4_0", 32, 18, 32, -8, 7, false, 4},
    {"Q4_1", 32, 20, 32, 0, 15, true, 4},
    {"Q5_0", 32, 22, 32, -16, 15, false, 5},
    {"Q5_1", 32, 24, 32, 0, 31, true, 5},
    {"Q8_0", 32, 34, 32, -128, 127, false, 8},
    {"IQ4_NL", 32, 18, 32, -127, 113, false, 4},
    {"IQ4_XS", 256, 136, 32, -127, 113, false, 4},
    {"Q2_K", 256, 84, 16, 0, 3, true, 2},
    {"Q3_K", 256, 110, 16, -4, 3, false, 3},
    {"Q4_K", 256, 144, 32, 0, 15, true, 4},
    {"Q5_K", 256, 176, 32, 0, 31, true, 5},
    {"Q6_K", 256, 210, 16, -32, 31, false, 6},
    {"Q1_0", 128, 18, 32, -1, 1, false, 1, 2},
    {"MXFP4", 32, 17, 32, -12, 12, false, 4},
    {"NVFP4", 64, 36, 16, -12, 12, false, 4},
    {"Q2_0", 64, 18, 32, -1, 2, false, 2},
    {"TQ1_0", 256, 54, 32, -1, 1, false, 2},
    {"TQ2_0", 256, 66, 32, -1, 2, false, 2},
    {"IQ3_S", 256, 110, 32, -15, 15, false, 4, 2},
    {"IQ3_XXS", 256, 98, 32, -62, 62, false, 4, 1, 0.25f},
    {"IQ2_S", 256, 82, 16, -43, 43, false, 3, 1, 0.125f},
    {"IQ2_XS", 256, 74, 16, -43, 43, false, 3, 1, 0.125f},
    {"IQ2_XXS", 256, 66, 32, -43, 43, false, 3, 1, 0.125f},
    {"IQ1_S", 256, 50, 32, -1, 1, true, 2, 1, 0.125f},
    {"IQ1_M", 256, 56, 16, -9, 9, false, 3, 1, 0.125f},
};
static constexpr const Format& format_of(Type type) { return formats[static_cast<int>(type)]; }

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
