// Scaled dot-product attention over a cache of keys and values, for any number of queries at once.
//
// The cache is read once for all rows of a call and its cells converted to f32, which is exact for both of its types. A row's
// result does not depend on the other rows:
// - scores are sums over the head's dimensions in ascending order;
// - softmax is accumulated online (Milakov and Gimelshein 1805.02867; Dao et al. 2205.14135) over blocks of 64 cells in
//   ascending order; a block whose cells are all masked is passed over;
// - every chunk of 512 cells starts afresh, and chunks are merged in ascending order, so that threads can share a long cache.
// So results have the same bits for any split into calls, threads, and for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace specdec::attention {

constexpr int block_cells = 64;
constexpr int chunk_cells = 512;
constexpr int lanes = 16;  // dimensions come in multiples of this
constexpr int max_head_size = 256;
constexpr int max_rows = 128;  // of one call

// How the cache holds a row of numbers: IEEE halves, or ggml's Q8_0: blocks of 32 as a half (the scale) and 32 int8.
enum class CacheType { f16, q8_0 };

// One sequence's queries and cache. Row r of key-value head h is query r / group, query head h * group + r % group. Strides in
// bytes.
struct Problem {
  const char* queries;  // f32 [head_size]
  std::int64_t query_stride, query_head_stride;
  const char* keys;  // [head_size] per cell
  std::int64_t key_stride, key_head_stride;
  const char* values;  // [value_size] per cell
  std::int64_t value_stride, value_head_stride;
  const char* mask;  // f16 [num_cells] per query, added to the scores; -inf hides a cell. Null: nothing is hidden
  std::int64_t mask_stride;
  char* out;  // f32 [value_size]
  std::int64_t out_stride, out_head_stride;
  std::int64_t num_cells;  // a multiple of block_cells
  CacheType type;          // with q8_0, sizes are multiples of 32
  int head_size, value_size, group;
  float scale;  // of the scores, before the mask

  std::int64_t num_chunks() const { return (num_cells + chunk_cells - 1) / chunk_cells; }
};

// Some rows, at most max_rows, of some key-value heads.
struct Rows {
  std::int64_t head_begin, head_end, begin, end;
};

// What is known of a row after some of the cells, f32: sums[value_size] of weighted values; the largest score; the sum of the
// weights; padding.
constexpr int state_floats(int value_size) { return value_size + lanes; }

// A strip is sixteen cells or dimensions side by side, of `depth` numbers each. A little more than that, since strips a power of
// two apart would compete for the same lines of the first cache level.
constexpr int strip_floats(int depth) { return (depth + 1) * lanes; }

// f32 values of scratch memory that a call needs.
constexpr std::size_t scratch_floats(int head_size, int value_size) {
  const int block = block_cells / lanes * strip_floats(head_size) + value_size / lanes * strip_floats(block_cells);
  return static_cast<std::size_t>(block + max_rows * (head_size + block_cells + 1) + lanes);
}

struct Kernels {
  const char* name;
  CpuFeatures needs;
  // Writes the rows' states over one chunk of the cache, from its first cell: states[head][row], heads `head_states` floats
  // apart. The heads' cells lie side by side in memory: more heads in a call fetch it better.
  void (*read_chunk)(const Problem& problem, const Rows& rows, std::int64_t chunk, float* states, std::int64_t head_states, float* scratch);
  // Merges the states of a later chunk into those of all before it.
  void (*merge)(int value_size, std::int64_t num_rows, float* states, const float* later);
  // Writes the results of one head's rows. A row with every cell masked gives zeros.
  void (*finish)(const Problem& problem, std::int64_t head, std::int64_t row_begin, std::int64_t row_end, const float* states);
};

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2, kernels_avx512;  // x86 builds only
extern const Kernels kernels_neon;                  // 64-bit ARM builds only

}  // namespace specdec::attention
