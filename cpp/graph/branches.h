// Attention of tokens that do not see the branches beside their own: their cells have gaps.
//
// A plain run has the cells of a branch side by side, and the bits of a sum depend on which cells share a block. So
// from the block of the first gap on, each query reads its cells from a copy without gaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/attention.h"

namespace specdec {

// The first cell of the blocks with gaps, a multiple of attention::block_cells, or num_cells: no query has any. Cells
// that no query sees, at the beginning (sliding windows) or at the end, are no gaps.
std::int64_t gaps_begin(const attention::Problem& problem, std::int64_t num_queries);

// The cells of one head that a query sees from gaps_begin() on, side by side, as the same cells of a problem.
class CellsWithoutGaps {
 public:
  static std::size_t memory_bytes(const attention::Problem& problem);

  CellsWithoutGaps(const attention::Problem& problem, std::int64_t begin, std::int64_t query, std::int64_t head,
                   char* memory);
  const attention::Problem& problem() const { return problem_; }

 private:
  attention::Problem problem_;
};

}  // namespace specdec
