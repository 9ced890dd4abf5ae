// Runs FLASH_ATTN_EXT of llama.cpp's graphs on our attention kernels.
#pragma once

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// The implementation; null for other operations and for attention that our kernels do not support (caches other than
// F16 and Q8_0, attention sinks, soft-capping, position biases). The choice depends only on the model, not on the
// batch.
ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op);

// From now on, converts Q8_0 caches to F32 (true) or multiplies in integers (false), to compare the two.
void compute_attention_in_floats(bool wanted);

}  // namespace specdec
