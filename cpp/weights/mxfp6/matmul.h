// Products of MXFP6 weights with activations: one table of functions per instruction set; all give the same bits.
//
//   W (rows, k) in tiles,  x (n, k) f32,  out[c * ldo + row] = sum over k of W[row, :] * x[c, :]
//
// matmul: x is first rounded to int8 blocks of 32 with one f32 scale each (`quantize`, into a panel). Per block the
// integer sum of products is exact; then, blocks in ascending order and one accumulator per output,
//   acc = fma(float(sum), weight_scale * activation_scale, acc).
// So a column's result does not depend on n, on how bands or threads split the work, or on the instruction set.
//
// The rounding is that of weights/rounding.h. A panel has its scales times code_unit, because the weights are
// multiplied as integers (format.h), and code_unit instead of 0. With scale NaN, all outputs are NaN.
//
// The caller owns memory and threads: every thread quantizes its share of blocks, all wait at a barrier, then every
// thread multiplies its share of bands. No function here allocates, throws, or needs alignment beyond that of its
// types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/index.h"
#include "weights/mxfp6/format.h"
#include "weights/rounding.h"

namespace specdec::mxfp6 {

static_assert(block_size == rounded_block_size);

// Panel: the quantized activations, in groups of panel_width columns (the last may be narrower). A group of w columns
// is a sequence of blocks of 40 w bytes: int8 codes [w][32], f32 scales [w], int32 corrections [w] = -64 * sum of the
// block's codes.
constexpr int panel_width = 8;
constexpr int panel_block_bytes = block_size + 8;  // per column
constexpr int weight_offset = 64;                  // x86 kernels store weights + 64 as unsigned bytes

struct PanelBlock {
  std::int64_t codes, scale, correction;  // byte offsets in the panel
};

static constexpr PanelBlock panel_block(std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block) {
  const std::int64_t first = column / panel_width * panel_width;
  const std::int64_t width = n - first < panel_width ? n - first : panel_width;
  const std::int64_t start = (first * (k / block_size) + block * width) * panel_block_bytes;
  const std::int64_t place = column - first;
  return {start + place * block_size, start + width * block_size + place * 4,
          start + width * (block_size + 4) + place * 4};
}

// Stores a block's scale as round_block gave it, and the sum of its codes.
static inline void store_numbers(float rounded_scale, std::int32_t sum, const PanelBlock& at, char* panel) {
  const float scale = rounded_scale == 0.0f ? code_unit : rounded_scale * code_unit;
  const std::int32_t correction = -weight_offset * sum;
  __builtin_memcpy(panel + at.scale, &scale, sizeof scale);
  __builtin_memcpy(panel + at.correction, &correction, sizeof correction);
}

// Bytes of a panel of n columns of k activations.
static constexpr std::size_t panel_bytes(std::int64_t n, std::int64_t k) {
  return idx(n * (k / block_size) * panel_block_bytes);
}

// Bytes of scratch memory that each thread passes to matmul. With more than one panel group, bands are decoded into it
// once.
constexpr int scratch_bands = 4;
static constexpr std::size_t scratch_bytes(std::int64_t n, std::int64_t k) {
  return n <= panel_width ? 0 : idx(scratch_bands * tile_rows * k);
}

// One instruction set's kernels. k is a multiple of 32; a band is 16 rows; `tiles` is the start of the whole matrix.
struct Kernels {
  const char* name;
  CpuFeatures needs;

  // Rounds blocks [block_begin, block_end) of one column (x is the start of its k activations) of an n-column panel.
  void (*quantize)(const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
                   std::int64_t block_end, void* panel) noexcept;

  // Multiplies all n columns by the rows of bands [band_begin, band_end); `out` is the place of the first of these rows
  // in column 0.
  void (*matmul)(const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
                 std::int64_t band_end, float* out, std::int64_t ldo, void* scratch) noexcept;
};

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2;              // x86 builds only
extern const Kernels kernels_avx_vnni;          // x86 builds whose compiler supports it
extern const Kernels kernels_avx512vl_vnni;     // x86 builds only
extern const Kernels kernels_avx512_vnni_vbmi;  // x86 builds only
extern const Kernels kernels_neon_dotprod;      // ARM builds only

}  // namespace specdec::mxfp6
