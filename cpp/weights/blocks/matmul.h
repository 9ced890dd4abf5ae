// Products of stock GGUF weights with activations: one table of functions per instruction set; all give the same bits.
//
//   W (rows, k) as the file holds it,  x (n, k) f32,  out[c * ldo + row] = sum over k of W[row, :] * x[c, :]
//
// x is first rounded to int8 blocks of 32 with one f32 scale each (`pack`, into a panel). Then, for groups of 16 or 32
// weights (format.h) in ascending order, with one accumulator per output that starts at 0:
//   acc = fma(float(sum of code * x_code), scale * x_scale, acc)
//   acc = fma(offset, x_scale * float(sum of x_code), acc)         types with offsets only
// Q2_K, Q3_K and IQ1_M (adds_groups) have integer scale codes, so that two groups of 16 are one integer; the offsets of
// both groups follow:
//   acc = fma(float(sum over both groups of scale_code * sum of code * x_code), d * unit * x_scale, acc)
// IQ1_S (has_eighths) has no offset but codes of eighths:
//   acc = fma(float(sum of (8 code +- 1) * x_code), scale / 8 * x_scale, acc)
// The sums are integers below 2^24, exact in any order and as f32. So a column's result does not depend on n, on how
// threads split the rows, or on the instruction set.
//
// The rounding is that of weights/rounding.h. With scale NaN, all outputs are NaN.
//
// The caller owns memory and threads: every thread packs its share of blocks, all wait, then every thread multiplies
// its share of rows. No function here allocates, throws, or needs alignment beyond that of its types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/index.h"
#include "weights/blocks/format.h"
#include "weights/blocks/tiles.h"
#include "weights/rounding.h"

namespace specdec::blocks {

constexpr int block_size = rounded_block_size;  // activations with one scale

struct PanelBlock {
  std::int8_t codes[block_size];
  float scale;
  float sums[2];                // scale * sum of the codes of each of the type's groups
  std::int32_t corrections[3];  // for kernels that store code - lowest
};

// Stores a block's scale and the sums of the codes of its halves. Corrections are
//   the lowest code of the type times the sum of each group,
//   if it adds groups, the lowest folded code times the sum of both; then these two as int16, and as a number in units
//   of 1 and 65536, plus 32768,
//   if it has eighths, the lowest codes with a negative and a positive eighth times the sum.
static inline void store_numbers(Type type, float scale, const std::int32_t (&half_sums)[2], PanelBlock& to) {
  const Format& format = format_of(type);
  const bool is_one_group = format.group == block_size;
  const std::int32_t sums[2] = {is_one_group ? half_sums[0] + half_sums[1] : half_sums[0],
                                is_one_group ? 0 : half_sums[1]};
  to.scale = scale;
  to.corrections[2] = 0;
  for (int i = 0; i < 2; ++i) {
    to.sums[i] = scale * static_cast<float>(sums[i]);
    to.corrections[i] = format.lowest * sums[i];
  }
  if (adds_groups(type)) {
    to.corrections[2] = to.corrections[1] * 65536 + to.corrections[0] + 0x8000;
    to.corrections[1] = to.corrections[2] ^ 0x8000;
    to.corrections[0] = lowest_folded(type) * (sums[0] + sums[1]);
  } else if (has_eighths(type)) {
    to.corrections[0] = lowest_eighth * sums[0];
    to.corrections[1] = (lowest_eighth + 2) * sums[0];
  }
}

// Panel: columns in groups of panel_width (the last may be narrower); a group of w columns is [blocks][w].
constexpr int panel_width = 8;
static constexpr std::int64_t panel_place(std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block) {
  const std::int64_t first = column / panel_width * panel_width,
                     width = n - first < panel_width ? n - first : panel_width;
  return first * (k / block_size) + block * width + column - first;
}
static constexpr std::size_t panel_bytes(std::int64_t n, std::int64_t k) {
  return idx(n * (k / block_size)) * sizeof(PanelBlock);
}

// Rows of k weights, row_bytes apart; k is a multiple of the type's block. `tiles`: the same weights in tiles
// (tiles.h), used if not null.
struct Matrix {
  Type type;
  const std::uint8_t* weights;
  std::int64_t row_bytes, k;
  const std::uint8_t* tiles = nullptr;
};

// 16 rows of tile_columns, decoded once for all columns of activations. A byte is a code, or code - lowest if the
// kernel multiplies unsigned bytes; four columns of a row lie together, followed by those of the next row.
constexpr int tile_columns = 512;
struct DecodedTile {
  std::uint8_t codes[tile_columns / 4][tile_rows][4];
  float scale[tile_columns / 16][tile_rows], offset[tile_columns / 16][tile_rows];  // by group
  // Types that add groups: scale is d * unit, and these are the scale codes of both groups as int16, by 32 columns.
  std::int32_t scale_codes[tile_columns / block_size][tile_rows];
};

// A thread's memory: a tile, the last rows of a matrix padded with zeros, and accumulators [n][16].
constexpr int padded_bytes = tile_rows * (tile_columns / 32 * 34);
static constexpr std::size_t scratch_bytes(std::int64_t n) {
  return sizeof(DecodedTile) + padded_bytes + idx(n) * tile_rows * sizeof(float);
}

struct Kernels {
  const char* name;
  CpuFeatures needs;

  // Rounds blocks [block_begin, block_end) of one column (x is the start of its k activations) of an n-column panel.
  void (*pack)(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
               std::int64_t block_end, PanelBlock* panel) noexcept;

  // Multiplies all n columns by rows [row_begin, row_end); `out` is the place of the first of these rows in column 0.
  // row_begin should be a multiple of tile_rows; with tiles it must be.
  void (*matmul)(const Matrix& w, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
                 float* out, std::int64_t ldo, void* scratch) noexcept;
};

void pack_scalar(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column,
                 std::int64_t block_begin, std::int64_t block_end, PanelBlock* panel) noexcept;

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2, kernels_avx512_vnni;        // x86 builds only
extern const Kernels kernels_avx_vnni;                         // x86 builds with compilers that support it
extern const Kernels kernels_neon_i8mm, kernels_neon_dotprod;  // 64-bit ARM builds only

}  // namespace specdec::blocks
