// Runs MUL_MAT and MUL_MAT_ID (experts) with F16, BF16 and F32 weights in llama.cpp's graphs on our kernels.
#pragma once

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// The implementation for a product of such a matrix (src[0], in any buffer) and F32 activations; null for any other
// operation. The choice depends only on types, not on the number of tokens.
ggml::cpu::tensor_traits* float_traits(const ggml_tensor* op);

}  // namespace specdec
