// The MXFP6 weight format: element codes, block scale, tile layout. Defined only here.
//
// Block: 32 weights along the input dimension share one E8M0 scale byte s, of value 2^(s - 127); 255 is NaN.
// 6.25 bits per weight. The quantizer writes scales 1..253 only, so that s << 23 is the scale as a normal float.
//
// Element E2M3, 6 bits, no infinities, no NaN:
//   sign(1) exponent(2, bias 1) mantissa(3)   e = 0: m / 8, else 2^(e-1) (1 + m / 8)   at most 7.5
//
// Tile: 16 rows x 32 columns in 400 bytes: 384 of codes, then 16 scales (one per row). A matrix is
// uint8 [rows / 16, cols / 32, 400]: bands of 16 rows, each a sequence of tiles along the columns.
// The 32 columns are 8 groups of 4. Column 4g + i of row r has place p = 4r + i (of 64) in group g.
// Half h (0, 1) holds groups 4h .. 4h+3 in three planes of 64 bytes. The low 6 bits of byte p of plane j (0..2) are the
// code of group 4h + j; the top 2 bits in planes 0, 1, 2 are bits 0-1, 2-3, 4-5 of the code of group 4h + 3.
#pragma once

#include <cstdint>

namespace specdec::mxfp6 {

constexpr int block_size = 32;
constexpr int tile_rows = 16;
constexpr int tile_columns = 32;
constexpr int group_columns = 4;
constexpr int groups = tile_columns / group_columns;
constexpr int group_places = tile_rows * group_columns;
constexpr int planes_per_half = 3;
constexpr int half_bytes = planes_per_half * group_places;
constexpr int tile_code_bytes = 2 * half_bytes;
constexpr int tile_bytes = tile_code_bytes + tile_rows;
constexpr int num_codes = 64;

static_assert(tile_columns == block_size, "a tile row is exactly one scaled block");
static_assert(tile_code_bytes * 8 == tile_rows * tile_columns * 6, "six bits per code, none wasted");
static_assert(tile_bytes == 400 && tile_bytes * 8 * 4 == 25 * tile_rows * tile_columns, "6.25 bits per weight");
static_assert(tile_bytes % tile_rows == 0 && tile_bytes / tile_rows == 25, "25 bytes per row and block");

constexpr int min_scale = 1;
constexpr int max_scale = 253;
constexpr int scale_bias = 127;

constexpr int mantissa_bits = 3;
constexpr int exponent_bias = 1;
constexpr int max_exponent = 2;  // floor(log2(max_value))
constexpr float max_value = 7.5f;
constexpr float code_unit = 0.125f;  // every value is an integer times this

// Functions here are static: the linker could use the copy of an inline function that was compiled for AVX-512 in code
// that runs on CPUs without it.

// The code's value in units of code_unit, -60..60. Minus zero is 0 here.
static constexpr int code_multiple(int code) {
  const int exponent = (code & 31) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int magnitude = exponent == 0 ? mantissa : (mantissa + (1 << mantissa_bits)) << (exponent - 1);
  return (code & 32) != 0 ? -magnitude : magnitude;
}

struct CodeValues {
  alignas(64) float entry[num_codes];
};

static constexpr CodeValues make_code_values() {
  CodeValues table{};
  for (int code = 0; code < num_codes; ++code) {
    const float magnitude = static_cast<float>(code_multiple(code & 31)) * code_unit;
    table.entry[code] = (code & 32) != 0 ? -magnitude : magnitude;
  }
  return table;
}

// The value of each code as f32; minus zero keeps its sign.
inline constexpr CodeValues code_values = make_code_values();

static_assert(code_multiple(0x1f) == 60 && code_values.entry[0x3f] == -max_value, "range");
static_assert(code_values.entry[1] == code_unit, "smallest value");

// The location of the code of row r, column c of a tile: half, group and place.
static constexpr int tile_half(int column) { return column / (4 * group_columns); }
static constexpr int tile_group(int column) { return column / group_columns % 4; }
static constexpr int tile_place(int row, int column) { return group_columns * row + column % group_columns; }

static constexpr int tile_code(const std::uint8_t* tile, int row, int column) {
  const std::uint8_t* plane = tile + tile_half(column) * half_bytes + tile_place(row, column);
  const int group = tile_group(column);
  if (group < planes_per_half) return plane[group * group_places] & 63;
  return (plane[0] >> 6) | (plane[group_places] >> 6) << 2 | (plane[2 * group_places] >> 6) << 4;
}

}  // namespace specdec::mxfp6
