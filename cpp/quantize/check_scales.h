// Checks the scales of MXFP6 tensors in untrusted files. Loading a model does not, because it would read the whole
// file.
#pragma once

#include <cstddef>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

// Reads every MXFP6 tensor and checks that all scale bytes are 1 to 253, as the kernels require. Returns the number of
// tensors. Throws ModelError that names the tensor and the place of the first invalid scale.
std::size_t check_scales(const std::vector<GgufFile>& parts);

}  // namespace specdec
