// All families of kernels, for `specdec info`.
#pragma once

#include <vector>

#include "graph/kernels.h"

namespace specdec::cli {

std::vector<KernelChoice> kernel_families();

}  // namespace specdec::cli
