// Scaled dot-product attention over a cache of keys and values, for any number of queries at once.
//
// The cache is read once for all rows of a call. Cells in F16 are converted to f32, which is exact; cells in Q8_0 are
// multiplied in integers (attention_int8.h states the arithmetic). A row's result does not depend on the other rows:
// - scores are sums over the head's dimensions in ascending order;
// - softmax is accumulated online (Milakov and Gimelshein 1805.02867; Dao et al. 2205.14135) over blocks of 64 cells in
//   ascending order; a block whose cells are all masked is skipped;
// - every chunk of 512 cells has its own state, and chunks are merged in ascending order, so that threads can share a
//   cache.
// So results have the same bits for any split into calls and threads, and on every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/index.h"

namespace specdec::attention {

constexpr int block_cells = 64;
constexpr int chunk_cells = 512;
constexpr int lanes = 16;  // head_size and value_size are multiples of this
constexpr int max_head_size = 256;
constexpr int max_rows = 128;  // per call

// The cache's number format: IEEE halves, or ggml's Q8_0 (blocks of 32 numbers: a half as scale, then 32 int8).
enum class CacheType { f16, q8_0 };

// One sequence's queries and cache. Row r of key-value head h is query r / group, query head h * group + r % group.
// Strides in bytes.
struct Problem {
  const char* queries;  // f32 [head_size]
  std::int64_t query_stride, query_head_stride;
  const char* keys;  // [head_size] per cell
  std::int64_t key_stride, key_head_stride;
  const char* values;  // [value_size] per cell
  std::int64_t value_stride, value_head_stride;
  const char* mask;  // f16 [num_cells] per query, added to the scores; -inf masks a cell. Null: no cell is masked
  std::int64_t mask_stride;
  char* out;  // f32 [value_size]
  std::int64_t out_stride, out_head_stride;
  std::int64_t num_cells;  // a multiple of block_cells
  CacheType type;          // with q8_0, sizes are multiples of 32
  int head_size, value_size, group;
  float scale;     // of the scores, before the mask
  bool in_floats;  // also converts Q8_0 to f32, for comparisons

  std::int64_t num_chunks() const { return (num_cells + chunk_cells - 1) / chunk_cells; }
};

// A range of rows, at most max_rows, of a range of key-value heads.
struct Rows {
  std::int64_t head_begin, head_end, begin, end;
};

// Cells of one chunk, whole blocks. A range that begins its chunk begins new states, any other continues those that the
// cells before it left.
struct CellRange {
  std::int64_t begin, end;
};
constexpr CellRange chunk_range(std::int64_t chunk, std::int64_t num_cells) {
  const std::int64_t begin = chunk * chunk_cells;
  return {begin, begin + chunk_cells < num_cells ? begin + chunk_cells : num_cells};
}

// The softmax state of a row after some of the cells, f32: sums[value_size] of weighted values, the largest score, the
// sum of the weights, padding.
constexpr int state_floats(int value_size) { return value_size + lanes; }

// A strip holds sixteen cells (or dimensions) side by side, with `depth` numbers each. It is padded by one row, because
// strips a power of two apart would compete for the same lines of the L1 cache.
constexpr int strip_floats(int depth) { return (depth + 1) * lanes; }

constexpr std::size_t float_scratch_floats(int head_size, int value_size) {
  const int block = block_cells / lanes * strip_floats(head_size) + value_size / lanes * strip_floats(block_cells);
  return idx(block + max_rows * (head_size + block_cells + 1) + lanes);
}

// How many queries are rounded to int8 at a time; at least max_rows.
constexpr int rounded_rows = 256;

constexpr std::size_t quad_scratch_floats(int head_size, int value_size) {
  const int cells = block_cells / 4 * (head_size + value_size) + block_cells / 32 * (head_size + value_size);
  const int queries = rounded_rows * (head_size / 4 + 2 * (head_size / 32));
  const int weights = max_rows * value_size / 32 * (block_cells / 4 + 2);
  return idx(cells + queries + weights);
}

// Number of f32 values of scratch memory per call.
constexpr std::size_t scratch_floats(int head_size, int value_size) {
  return float_scratch_floats(head_size, value_size) + quad_scratch_floats(head_size, value_size);
}

struct Kernels {
  const char* name;
  CpuFeatures needs;
  // Writes the states of the rows after some cells of one chunk: states[head][row], heads `head_states` floats apart.
  // The heads of a cell are adjacent in memory, so more heads per call read the cache more efficiently.
  void (*read)(const Problem& problem, const Rows& rows, const CellRange& cells, float* states,
               std::int64_t head_states, float* scratch);
  // Merges the states of a later chunk into those of the chunks before it.
  void (*merge)(int value_size, std::int64_t num_rows, float* states, const float* later);
  // Writes the results of one head's rows: zeros if all cells are masked.
  void (*finish)(const Problem& problem, std::int64_t head, std::int64_t row_begin, std::int64_t row_end,
                 const float* states);
};

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2, kernels_avx_vnni, kernels_avx512_vnni;  // x86 builds only
extern const Kernels kernels_neon_dotprod;                                 // 64-bit ARM builds only

}  // namespace specdec::attention
