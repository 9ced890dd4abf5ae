#include "llama/huge_pages.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace specdec {
namespace {

#ifdef MADV_HUGEPAGE

constexpr std::size_t page_bytes = 2u << 20;

std::size_t whole_pages(std::size_t size) { return (size + page_bytes - 1) / page_bytes * page_bytes; }

// Whole pages that begin where a page does, or null. mmap() aligns to small pages: what is too much at both ends goes back.
char* map_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes + page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(memory);
  const std::size_t before = (page_bytes - reinterpret_cast<std::uintptr_t>(begin) % page_bytes) % page_bytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, page_bytes - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // refused: small pages
  return begin + before;
}

decltype(ggml_backend_buffer_type_i::alloc_buffer) alloc_from_heap = nullptr;  // llama.cpp's own

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
  char* memory = size < page_bytes || whole_pages(size) < size ? nullptr : map_pages(whole_pages(size));
  if (memory == nullptr) return alloc_from_heap(type, size);  // small, or it says what is wrong
  ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(memory, size);
  buffer->buft = type;
  buffer->iface.free_buffer = [](ggml_backend_buffer_t freed) { munmap(freed->context, whole_pages(freed->size)); };
  return buffer;
}

#endif

}  // namespace

bool has_huge_pages() {
  // "always [madvise] never": what the system does.
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string words;
  return std::getline(setting, words) && words.find("[never]") == std::string::npos;
}

void install_huge_pages() {
#ifdef MADV_HUGEPAGE
  auto& allocate = ggml_backend_cpu_buffer_type()->iface.alloc_buffer;
  alloc_from_heap = allocate;
  allocate = alloc_buffer;
#endif
}

}  // namespace specdec
