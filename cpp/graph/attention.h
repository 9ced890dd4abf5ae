// FLASH_ATTN_EXT in llama.cpp's graphs on our attention kernels.
#pragma once

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// The implementation, or null for another operation, or a kind of attention that our kernels do not have (caches other than
// F16 and Q8_0, attention sinks, soft-capping, position biases): which one it is depends on the model alone, never on the batch.
ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op);

}  // namespace specdec
