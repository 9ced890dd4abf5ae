// The hot loops of calibrated quantization: one table of functions per instruction set (base/isa.h). All tables give
// the same bits, because no sum is reordered.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "weights/mxfp6/format.h"

namespace specdec::mxfp6 {

// Rows of weights that are rounded at once; as many as a block has columns, so that the codec's function for a block
// can round one column of them.
constexpr int feedback_lanes = block_size;
using Lanes = float[feedback_lanes];

// A matrix in memory, row- or column-major.
struct StridedMatrix {
  const float* start;
  std::int64_t row_stride, column_stride;
};

// Inputs x f32 [n, k] of which moments are made, arranged in panels [k / moment_lanes][n][moment_lanes].
constexpr std::int64_t moment_lanes = 8;
constexpr std::int64_t moment_rows = 4;  // of h, at a time

struct CalibrationLoops {
  const char* name;
  CpuFeatures needs;

  // h [k, k] += sum over n of x x^T, in rows [row, row + moment_rows), below the diagonal and on it (and a few places
  // next to it).
  void (*add_moments)(const float* panels, std::int64_t n, std::int64_t k, std::int64_t row, float* h) noexcept;

  // Eliminates the columns [begin, end) of a finished panel of h [n, n], a multiple of 4, from row r < begin.
  void (*eliminate)(double* h, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t r) noexcept;

  // sums[r] += sum over i < count of a(r, i) * x[i], i ascending, for rows r < outputs.
  void (*accumulate)(const StridedMatrix& a, std::int64_t outputs, const Lanes* x, std::int64_t count,
                     Lanes* sums) noexcept;
};

extern const CalibrationLoops calibration_loops_scalar;
extern const CalibrationLoops calibration_loops_avx2;  // x86 builds only

}  // namespace specdec::mxfp6
