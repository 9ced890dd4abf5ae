// The scales of MXFP6 tensors, for files of doubtful origin. A plain load does not look: it would read the whole file.
#pragma once

#include <cstddef>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

// Reads every MXFP6 tensor; the kernels need scale bytes of 1 to 253. Returns how many tensors there are.
// Throws ModelError naming the tensor and the place of the first other scale.
std::size_t check_scales(const std::vector<GgufFile>& parts);

}  // namespace specdec
