// The table of the types of weights: gguf/ reads numbers, names and sizes from it, graph/ the types that our kernels
// multiply, and weights/blocks how these store a weight. The numbers are ggml's, and our own from 96 on.
// tests/llama/test_ggml_types.cpp compares the table with ggml's.
//
// A matrix of a block type, as stock GGUF files have them, is stored in rows of blocks, in the layouts of llama.cpp's
// ggml-common.h. All of these types express the same thing in different packings: per group of 16 or 32 weights
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

namespace specdec {

// The types that the kernels of weights/blocks multiply.
enum class BlockType {
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  iq1_m = 29,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};
static constexpr int id(BlockType type) { return static_cast<int>(type); }

// Other types that this program uses by name.
namespace type_id {
constexpr int f32 = 0, f16 = 1, q8_0 = id(BlockType::q8_0), mxfp6_e2m3 = 96;
constexpr int mxfp6_e3m2 = 97;  // earlier versions wrote it; this one does not read it
}  // namespace type_id

// MXFP6 matrices are stored in tiles (weights/mxfp6/format.h), so rows come in bands, and a file states its order of
// tiles.
constexpr int mxfp6_block = 32, mxfp6_block_bytes = 25, mxfp6_rows_multiple = 16;
constexpr const char* mxfp6_layout_key = "mxfp6.layout";
constexpr std::uint64_t mxfp6_layout = 1;

// How a block type stores weights.
struct Codes {
  int group = 0;                // weights that share a scale; 0: not a block type
  int lowest = 0, highest = 0;  // code
  bool offsets = false;
  int bits =
      0;  // of a stored code: (code - lowest) / step, or a place in a table (weights/blocks); Q8_0: the signed byte
  int step = 1;              // between codes
  float unit = 1;            // of scales and offsets; a power of two
  bool are_in_grid = false;  // the codes of neighbours are an entry of a grid
};

struct WeightType : Codes {
  constexpr WeightType(int id_, const char* name_, int columns_, int bytes_, Codes codes = {})
      : Codes(codes), id(id_), name(name_), columns(columns_), bytes(bytes_) {}
  int id;
  const char* name;
  int columns, bytes;  // of a block; 0: no longer read
};

constexpr WeightType weight_types[] = {
    {type_id::f32, "F32", 1, 4},
    {type_id::f16, "F16", 1, 2},
    {id(BlockType::q4_0), "Q4_0", 32, 18, {32, -8, 7, false, 4}},
    {id(BlockType::q4_1), "Q4_1", 32, 20, {32, 0, 15, true, 4}},
    {4, "Q4_2", 0, 0},
    {5, "Q4_3", 0, 0},
    {id(BlockType::q5_0), "Q5_0", 32, 22, {32, -16, 15, false, 5}},
    {id(BlockType::q5_1), "Q5_1", 32, 24, {32, 0, 31, true, 5}},
    {id(BlockType::q8_0), "Q8_0", 32, 34, {32, -128, 127, false, 8}},
    {9, "Q8_1", 32, 36},
    {id(BlockType::q2_k), "Q2_K", 256, 84, {16, 0, 3, true, 2}},
    {id(BlockType::q3_k), "Q3_K", 256, 110, {16, -4, 3, false, 3}},
    {id(BlockType::q4_k), "Q4_K", 256, 144, {32, 0, 15, true, 4}},
    {id(BlockType::q5_k), "Q5_K", 256, 176, {32, 0, 31, true, 5}},
    {id(BlockType::q6_k), "Q6_K", 256, 210, {16, -32, 31, false, 6}},
    {15, "Q8_K", 256, 292},
    {id(BlockType::iq2_xxs), "IQ2_XXS", 256, 66, {32, -43, 43, false, 3, 1, 0.125f, true}},
    {id(BlockType::iq2_xs), "IQ2_XS", 256, 74, {16, -43, 43, false, 3, 1, 0.125f, true}},
    {id(BlockType::iq3_xxs), "IQ3_XXS", 256, 98, {32, -62, 62, false, 4, 1, 0.25f, true}},
    {id(BlockType::iq1_s), "IQ1_S", 256, 50, {32, -1, 1, true, 2, 1, 0.125f, true}},
    {id(BlockType::iq4_nl), "IQ4_NL", 32, 18, {32, -127, 113, false, 4}},
    {id(BlockType::iq3_s), "IQ3_S", 256, 110, {32, -15, 15, false, 4, 2, 1, true}},
    {id(BlockType::iq2_s), "IQ2_S", 256, 82, {16, -43, 43, false, 3, 1, 0.125f, true}},
    {id(BlockType::iq4_xs), "IQ4_XS", 256, 136, {32, -127, 113, false, 4}},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {id(BlockType::iq1_m), "IQ1_M", 256, 56, {16, -9, 9, false, 3, 1, 0.125f, true}},
    {30, "BF16", 1, 2},
    {31, "Q4_0_4_4", 0, 0},
    {32, "Q4_0_4_8", 0, 0},
    {33, "Q4_0_8_8", 0, 0},
    {id(BlockType::tq1_0), "TQ1_0", 256, 54, {32, -1, 1, false, 2}},
    {id(BlockType::tq2_0), "TQ2_0", 256, 66, {32, -1, 2, false, 2}},
    {36, "IQ4_NL_4_4", 0, 0},
    {37, "IQ4_NL_4_8", 0, 0},
    {38, "IQ4_NL_8_8", 0, 0},
    {id(BlockType::mxfp4), "MXFP4", 32, 17, {32, -12, 12, false, 4}},
    {id(BlockType::nvfp4), "NVFP4", 64, 36, {16, -12, 12, false, 4}},
    {id(BlockType::q1_0), "Q1_0", 128, 18, {32, -1, 1, false, 1, 2}},
    {id(BlockType::q2_0), "Q2_0", 64, 18, {32, -1, 2, false, 2}},
    {type_id::mxfp6_e2m3, "MXFP6_E2M3", mxfp6_block, mxfp6_block_bytes},
    {type_id::mxfp6_e3m2, "MXFP6_E3M2", 0, 0},
};

// Null if the type is unknown.
static constexpr const WeightType* find_weight_type(std::int64_t id) {
  for (const WeightType& type : weight_types) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

static constexpr bool is_mxfp6(std::int64_t type) { return type == type_id::mxfp6_e2m3; }

}  // namespace specdec
