// Which weight types each tensor of a model may have.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

// Throws ModelError for a tensor whose type its operation does not support: ggml would abort in the middle of a pass,
// or call a kernel that does not exist. llama.cpp's own table (llama-arch.h) gives the operation by the tensor's name;
// tensors without an operation are not used.
void check_tensor_types(const std::vector<GgufFile>& parts);

// Whether activations are multiplied by the tensor of this name as a matrix.
bool is_matrix_of_product(const std::string& name);

}  // namespace specdec
