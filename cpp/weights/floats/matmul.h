// Products of floating-point weights (rows of F16, BF16 or F32, as in a model file) with F32 activations.
//
//   W (rows, k),  x (n, k) f32,  out[c * ldo + row] = sum over k of W[row, :] * x[c, :]
//
// Every weight is converted to f32, which is exact; activations are not rounded. An output is a tree of sixteen sums:
//   sum[l] = 0;  sum[l] = fma(W[row, 16 b + l], x[c, 16 b + l], sum[l])  for b = 0, 1, ..., with zeros from k on;
//   then sum[l] += sum[l + h] for h = 8, 4, 2, 1, and sum[0] is the result.
// So it does not depend on n, on how threads split the rows, or on the instruction set. NaN and infinity propagate.
//
// The caller owns memory and threads: every thread packs its share of the activations, all wait at a barrier, then
// every thread multiplies its share of rows. No function here allocates, throws, or needs alignment beyond that of its
// types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/index.h"

namespace specdec::floats {

enum class Type { f16, bf16, f32 };

constexpr int lanes = 16;

static constexpr std::int64_t num_blocks(std::int64_t k) { return (k + lanes - 1) / lanes; }

// Panel: the activations in the order the kernel reads them. The columns form groups of nearly equal width, at most as
// wide as the kernel's tile. A group of w columns is f32 [blocks][w][16], with zeros after the last activation. The
// columns are interleaved because columns k floats apart would compete for the same L1 lines when k is a power of two.
struct Groups {
  constexpr Groups(std::int64_t n_, int width) : n(n_), count((n_ + width - 1) / width) {}
  constexpr std::int64_t first(std::int64_t group) const { return n * group / count; }
  constexpr std::int64_t of_column(std::int64_t column) const { return ((column + 1) * count - 1) / n; }

  std::int64_t n, count;
};
static constexpr std::size_t panel_floats(std::int64_t n, std::int64_t k) { return idx(n * num_blocks(k) * lanes); }

// Rows of k weights, row_bytes apart.
struct Matrix {
  Type type;
  const void* weights;
  std::int64_t row_bytes, k;
};

struct Kernels {
  const char* name;
  CpuFeatures needs;
  int panel_width;  // maximum number of columns in a group

  // Multiplies all n columns by rows [row_begin, row_end); `out` is the place of the first of these rows in column 0.
  // Fastest if both limits are multiples of tile_rows.
  void (*matmul)(const Matrix& w, const float* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
                 float* out, std::int64_t ldo) noexcept;
};
constexpr int tile_rows = 24;  // a multiple of the rows that any kernel multiplies at once
// Bytes of weights that stay in L2 while all columns are multiplied by them. With many columns, calls of fewer rows
// read the panel more often than necessary.
constexpr std::int64_t band_bytes = 640 << 10;

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2, kernels_avx512;  // x86 builds only
extern const Kernels kernels_neon;                  // 64-bit ARM builds only

// Copies blocks [block_begin, block_end) of one column (x is the start of its k activations) of an n-column panel.
void pack(const Kernels& kernels, const float* x, std::int64_t n, std::int64_t k, std::int64_t column,
          std::int64_t block_begin, std::int64_t block_end, float* panel) noexcept;

}  // namespace specdec::floats
