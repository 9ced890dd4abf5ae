// Compiled for AVX2.
#include "weights/mxfp6/calibration_loops.h"

namespace specdec::mxfp6 {
namespace {

#include "weights/mxfp6/calibration_loops_body.h"

}  // namespace

extern const CalibrationLoops calibration_loops_avx2 = {"avx2", cpu::avx2, add_moments, eliminate, accumulate};

}  // namespace specdec::mxfp6
