// Scaled dot-product attention over a cache of F16 keys and values, for any number of queries at once.
//
// The cache is read once for all rows of a call, in blocks of 64 cells. A row's result does not depend on the other rows: per
// block, scores are sums over the head's dimensions in ascending order, softmax is accumulated online (Milakov and Gimelshein
// 1805.02867; Dao et al. 2205.14135) in ascending blocks, and a block whose cells are all masked is passed over, which changes
// nothing. So results have the same bits for any split into calls, threads, and for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace specdec::attention {

constexpr int block_cells = 64;
constexpr int lanes = 16;          // dimensions come in multiples of this
constexpr int max_head_size = 256;
constexpr int max_rows = 128;      // of one call

// The rows of one key-value head: row r is query r / group, head r % group of those that share the keys. Strides in bytes.
struct Problem {
  const char* queries;  // f32 [head_size]
  std::int64_t query_stride, query_head_stride;
  const char* keys;  // f16 [head_size] per cell
  std::int64_t key_stride;
  const char* values;  // f16 [value_size] per cell
  std::int64_t value_stride;
  const char* mask;  // f16 [num_cells] per query, added to the scores; -inf hides a cell. Null: nothing is hidden
  std::int64_t mask_stride;
  char* out;  // f32 [value_size]
  std::int64_t out_stride, out_head_stride;
  std::int64_t num_cells;  // a multiple of block_cells
  int head_size, value_size, group;
  float scale;  // of the scores, before the mask
};

// f32 values of scratch memory that one call needs, 64-byte aligned.
constexpr std::size_t scratch_floats(int head_size, int value_size) {
  const std::size_t block = static_cast<std::size_t>(block_cells) * static_cast<std::size_t>(head_size + value_size);
  const std::size_t rows = static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(head_size + value_size + 2);
  return block + rows + 4 * block_cells;
}

// Rows [row_begin, row_end), at most max_rows of them. A row with every cell masked gives zeros.
using Attend = void (*)(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch);

void attend_scalar(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept;
void attend_avx2(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept;    // x86 builds only
void attend_avx512(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept;  // x86 builds only

// By the name of an MXFP6 instruction set (mxfp6/dispatch.h), whose choice holds here too; scalar for those without their own.
Attend attend_for(const char* isa) noexcept;

}  // namespace specdec::attention
