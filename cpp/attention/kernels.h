// The attention kernels of this build.
#pragma once

#include <vector>

#include "attention/attention.h"

namespace specdec::attention {

// Best first, scalar last, for pick() of base/isa.h.
const std::vector<const Kernels*>& all_kernels();

}  // namespace specdec::attention
