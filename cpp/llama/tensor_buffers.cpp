#include "llama/tensor_buffers.h"

#include <cstddef>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "platform/huge_pages.h"

namespace specdec {
namespace {

decltype(ggml_backend_buffer_type_i::alloc_buffer) alloc_from_heap = nullptr;  // llama.cpp's own

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
  void* memory = size < huge_page_bytes ? nullptr : map_huge_pages(size);
  if (memory == nullptr)
    // For small buffers; for large ones, this reports the error.
    return alloc_from_heap(type, size);
  ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(memory, size);
  buffer->buft = type;
  buffer->iface.free_buffer = [](ggml_backend_buffer_t freed) { unmap_huge_pages(freed->context, freed->size); };
  return buffer;
}

}  // namespace

void install_tensor_buffers() {
  auto& type = ggml_backend_cpu_buffer_type()->iface;
  alloc_from_heap = type.alloc_buffer;
  type.alloc_buffer = alloc_buffer;
  type.get_alignment = [](ggml_backend_buffer_type_t) -> std::size_t { return 64; };  // 32 in ggml
}

}  // namespace specdec
