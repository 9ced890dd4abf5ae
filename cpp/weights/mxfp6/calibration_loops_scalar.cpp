// Compiled for the instructions that every CPU of the architecture has.
#include "weights/mxfp6/calibration_loops.h"

namespace specdec::mxfp6 {
namespace {

#include "weights/mxfp6/calibration_loops_body.h"

}  // namespace

extern const CalibrationLoops calibration_loops_scalar = {"scalar", 0, add_moments, eliminate, accumulate};

}  // namespace specdec::mxfp6
