#include "quantize/moments.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"

namespace specdec {
namespace {

// A vector of eight floats, and such a vector anywhere in memory; the compiler uses as many registers as it needs.
typedef float Eight __attribute__((vector_size(8 * sizeof(float))));
typedef float EightAnywhere __attribute__((vector_size(8 * sizeof(float)), aligned(alignof(float)), may_alias));
constexpr std::int64_t lanes = 8;

// A panel is what all x have in `lanes` columns: f32 [n, lanes]. A tile of h is 4 rows by two panels of columns: as many sums as 16
// registers of AVX2 hold.
constexpr std::int64_t tile_rows = 4, tile_panels = 2, tile_columns = tile_panels * lanes;

// The tiles of 4 rows of h from `row`, below the diagonal and on it.
inline __attribute__((always_inline)) void add_rows_body(const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h) {
  const float* rows = panels + row / lanes * n * lanes + row % lanes;
  for (std::int64_t column = 0; column < row + tile_rows; column += tile_columns) {
    const float *left = panels + column * n, *right = left + n * lanes;
    Eight sums[tile_rows][tile_panels] = {};
    for (std::int64_t t = 0; t < n; ++t) {
      const Eight a = *reinterpret_cast<const EightAnywhere*>(left + t * lanes),
                  b = *reinterpret_cast<const EightAnywhere*>(right + t * lanes);
      for (std::int64_t i = 0; i < tile_rows; ++i) {
        sums[i][0] += a * rows[t * lanes + i];
        sums[i][1] += b * rows[t * lanes + i];
      }
    }
    for (std::int64_t i = 0; i < tile_rows; ++i) {
      EightAnywhere* to = reinterpret_cast<EightAnywhere*>(h + (row + i) * k + column);
      for (std::int64_t p = 0; p < tile_panels; ++p) to[p] += sums[i][p];
    }
  }
}

using AddRows = void (*)(const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h);
constexpr AddRows add_rows_portable = [](const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h) {
  add_rows_body(panels, n, k, row, h);
};

#if defined(__x86_64__)
__attribute__((target("avx2"))) void add_rows_avx2(const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h) {
  add_rows_body(panels, n, k, row, h);
}
const AddRows add_rows = __builtin_cpu_supports("avx2") ? add_rows_avx2 : add_rows_portable;
#else
constexpr AddRows add_rows = add_rows_portable;
#endif

}  // namespace

void add_moments(const float* x, std::int64_t n, std::int64_t k, float* h, int num_threads) {
  std::vector<float> panels(static_cast<std::size_t>(n * k));
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t column = 0; column < k; column += lanes) {
      std::copy_n(x + t * k + column, lanes, panels.data() + column * n + t * lanes);
    }
  }
  for_each_piece(k >= 512 ? num_threads : 1, k / tile_rows, [&](std::int64_t piece) {
    add_rows(panels.data(), n, k, k - (piece + 1) * tile_rows, h);  // long rows first
  });
}

}  // namespace specdec
