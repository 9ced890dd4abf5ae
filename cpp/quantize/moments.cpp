#include "quantize/moments.h"

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "base/parallel.h"
#include "weights/mxfp6/kernels.h"

namespace specdec {

void add_moments(const float* x, std::int64_t n, std::int64_t k, float* h, int num_threads) {
  constexpr std::int64_t lanes = mxfp6::moment_lanes, rows = mxfp6::moment_rows;
  std::vector<float> panels(idx(n * k));
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t column = 0; column < k; column += lanes) {
      std::copy_n(x + t * k + column, lanes, panels.data() + column * n + t * lanes);
    }
  }
  for_each_piece(k >= 512 ? num_threads : 1, k / rows, [&](std::int64_t piece) {
    mxfp6::calibration_loops().add_moments(panels.data(), n, k, k - (piece + 1) * rows, h);  // long rows first
  });
}

}  // namespace specdec
