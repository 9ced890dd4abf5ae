// The kernels of this build.
#pragma once

#include <vector>

#include "weights/mxfp6/calibration_loops.h"
#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const Kernels*>& all_kernels();
const std::vector<const CalibrationLoops*>& all_calibration_loops();

// The loops of the chosen instruction set.
const CalibrationLoops& calibration_loops();

}  // namespace specdec::mxfp6
