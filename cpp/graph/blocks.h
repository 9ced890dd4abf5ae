// Stock quantized weights (Q4_K, Q8_0, ...) in llama.cpp's graphs: MUL_MAT and MUL_MAT_ID (experts) on our kernels.
#pragma once

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// Whether our kernels multiply weights of this type (a ggml_type). Rounding then does not depend on the number of columns.
bool is_block_type(int ggml_type);

// The implementation for a product of such a matrix (src[0], in whatever buffer) and F32 activations; null for any other operation.
// Types and strides alone decide, never the number of tokens.
ggml::cpu::tensor_traits* block_traits(const ggml_tensor* op);

}  // namespace specdec
