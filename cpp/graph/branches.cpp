#include "graph/branches.h"

#include <algorithm>
#include <cstring>

namespace specdec {
namespace {

using attention::block_cells;
using attention::Problem;

constexpr std::uint16_t hidden = 0xFC00;    // -inf
constexpr std::int64_t longest_tree = 128;  // cells, with what lies between them
constexpr std::int64_t most_cells = 256;    // from the block of the first gap to the last cell

const std::uint16_t* mask_of(const Problem& p, std::int64_t query) {
  return reinterpret_cast<const std::uint16_t*>(p.mask + query * p.mask_stride);
}

std::int64_t row_bytes(attention::CacheType type, int size) {
  return type == attention::CacheType::f16 ? 2 * std::int64_t{size} : size / 32 * std::int64_t{34};
}

// One past the last cell that is seen.
std::int64_t end_of(const std::uint16_t* mask, std::int64_t num_cells) {
  constexpr std::uint64_t four_hidden = 0xFC00FC00FC00FC00u;
  std::uint64_t four = four_hidden;
  for (; num_cells >= 4; num_cells -= 4) {
    std::memcpy(&four, mask + num_cells - 4, sizeof four);
    if (four != four_hidden) break;
  }
  while (num_cells > 0 && mask[num_cells - 1] == hidden) --num_cells;
  return num_cells;
}

// The first gap of a query, or `end`.
std::int64_t first_gap(const std::uint16_t* mask, std::int64_t end) {
  std::int64_t gap = end, cell = end, gap_below = end;
  for (const std::int64_t least = std::max<std::int64_t>(0, end - longest_tree); cell-- > least;) {
    if (mask[cell] == hidden) gap_below = cell;
    else gap = gap_below;  // it has seen cells on both sides
  }
  return gap;
}

}  // namespace

std::int64_t gaps_begin(const Problem& p, std::int64_t num_queries) {
  std::int64_t begin = p.num_cells, last = 0;
  for (std::int64_t query = 0; p.mask != nullptr && query < num_queries; ++query) {
    const std::int64_t end = end_of(mask_of(p, query), p.num_cells), gap = first_gap(mask_of(p, query), end);
    if (gap < end) begin = std::min(begin, gap / block_cells * block_cells);
    last = std::max(last, end);
  }
  return last - begin <= most_cells ? begin : p.num_cells;
}

std::size_t CellsWithoutGaps::memory_bytes(const Problem& p) {
  const std::int64_t cell = row_bytes(p.type, p.head_size) + row_bytes(p.type, p.value_size) + 2;
  return idx(cell * most_cells);
}

CellsWithoutGaps::CellsWithoutGaps(const Problem& p, std::int64_t begin, std::int64_t query, std::int64_t head,
                                   char* memory)
    : problem_(p) {
  const std::int64_t key_bytes = row_bytes(p.type, p.head_size), value_bytes = row_bytes(p.type, p.value_size);
  char *const keys = memory, *const values = keys + most_cells * key_bytes,
              *const mask = values + most_cells * value_bytes;
  const std::uint16_t* const seen = mask_of(p, query);
  std::int64_t count = 0;
  for (std::int64_t cell = begin, end = end_of(seen, p.num_cells); cell < end; ++cell) {
    if (seen[cell] == hidden) continue;
    std::memcpy(keys + count * key_bytes, p.keys + head * p.key_head_stride + cell * p.key_stride, idx(key_bytes));
    std::memcpy(values + count * value_bytes, p.values + head * p.value_head_stride + cell * p.value_stride,
                idx(value_bytes));
    std::memcpy(mask + 2 * count, seen + cell, 2);
    ++count;
  }
  const std::int64_t whole = (count + block_cells - 1) / block_cells * block_cells;
  std::memset(keys + count * key_bytes, 0, idx((whole - count) * key_bytes));
  std::memset(values + count * value_bytes, 0, idx((whole - count) * value_bytes));
  for (; count < whole; ++count) std::memcpy(mask + 2 * count, &hidden, 2);
  problem_.keys = keys - begin * key_bytes;
  problem_.key_stride = key_bytes;
  problem_.values = values - begin * value_bytes;
  problem_.value_stride = value_bytes;
  problem_.key_head_stride = problem_.value_head_stride = 0;
  problem_.mask = mask - 2 * begin;
  problem_.mask_stride = 0;
  problem_.num_cells = begin + whole;
}

}  // namespace specdec
