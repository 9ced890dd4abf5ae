#include "llama/huge_page_buffers.h"

#include <cstddef>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "platform/huge_pages.h"

namespace specdec {
namespace {

decltype(ggml_backend_buffer_type_i::alloc_buffer) alloc_from_heap = nullptr;  // llama.cpp's own

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
  void* memory = size < huge_page_bytes ? nullptr : map_huge_pages(size);
  if (memory == nullptr) return alloc_from_heap(type, size);  // small buffers; for large ones, it reports the error
  ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(memory, size);
  buffer->buft = type;
  buffer->iface.free_buffer = [](ggml_backend_buffer_t freed) { unmap_huge_pages(freed->context, freed->size); };
  return buffer;
}

}  // namespace

void install_huge_page_buffers() {
  auto& allocate = ggml_backend_cpu_buffer_type()->iface.alloc_buffer;
  alloc_from_heap = allocate;
  allocate = alloc_buffer;
}

}  // namespace specdec
