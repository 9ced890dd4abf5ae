// llama.cpp's CPU buffers as our kernels want them: in huge pages (platform/huge_pages.h), tensors at the start of
// cache lines. They hold caches, intermediate results, and weights that are not mapped.
#pragma once

namespace specdec {

// Call once, before loading any model.
void install_tensor_buffers();

}  // namespace specdec
