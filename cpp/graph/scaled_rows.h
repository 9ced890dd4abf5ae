// MUL of rows by one number each, for example the outputs of a mixture's experts by their weights. llama.cpp's kernel
// calls its inner loop once per number, which takes 6 % of a small mixture's pass. The products are the same.
#pragma once

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// The implementation of such an operation; null for others.
ggml::cpu::tensor_traits* scaled_rows_traits(const ggml_tensor* op);

}  // namespace specdec
