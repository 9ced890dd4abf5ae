// The kernels of this build.
#pragma once

#include <vector>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const Kernels*>& all_kernels();

}  // namespace specdec::blocks
