// Makes llama.cpp's CPU buffers suit our kernels: in huge pages (platform/huge_pages.h), with tensors at the start of
// cache lines. These buffers hold caches, intermediate results, and weights that are not mapped.
#pragma once

namespace specdec {

// Call this once, before loading any model.
void install_tensor_buffers();

}  // namespace specdec
