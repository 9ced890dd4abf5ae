// Kernels::quantize for x86; included inside an anonymous namespace by files that are compiled for AVX2 or better.

#include "weights/rounding_x86.h"

void quantize(const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
              std::int64_t block_end, void* panel) noexcept {
  char* base = static_cast<char*>(panel);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    const PanelBlock at = panel_block(n, k, column, block);
    const RoundedBlock rounded = round_block_x86(x + block * block_size, base + at.codes);
    store_numbers(rounded.scale, sum_of_lanes(_mm256_add_epi32(rounded.sums[0], rounded.sums[1])), at, base);
  }
}
