// The kernels of this build.
#pragma once

#include <vector>

#include "weights/floats/matmul.h"

namespace specdec::floats {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const Kernels*>& all_kernels();

}  // namespace specdec::floats
