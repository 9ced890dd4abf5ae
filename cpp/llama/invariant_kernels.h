// Devices that can compute a few tokens batch-invariantly: a row has the same bits in passes over 1 to 8 tokens.
#pragma once

#include <vector>

#include "base/token.h"

struct ggml_backend_device;
struct llama_context;

namespace specdec {

// Whether the device's module has such kernels (third_party/llama.cpp/patches/0010-batch-invariance.patch).
bool has_invariant_kernels(ggml_backend_device* device);

// Whether all devices of the context have them; if so, they use them from now on, or no longer.
bool use_invariant_kernels(const llama_context& context, bool wanted);

// A text to compare rows of.
std::vector<Token> some_text(int length, int vocabulary_size);

}  // namespace specdec
