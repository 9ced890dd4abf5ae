// The kernels of this build.
#pragma once

#include <vector>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const Kernels*>& all_kernels();

}  // namespace specdec::mxfp6
