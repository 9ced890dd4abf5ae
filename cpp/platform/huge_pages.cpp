#include "platform/huge_pages.h"

#include <cstdint>
#include <fstream>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace specdec {

#ifdef MADV_HUGEPAGE

namespace {

std::size_t whole_pages(std::size_t size) { return (size + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes; }

}  // namespace

bool has_huge_pages() {
  // "always [madvise] never": the current setting is in brackets.
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string words;
  return std::getline(setting, words) && words.find("[never]") == std::string::npos;
}

// mmap() aligns to small pages, so this maps more and unmaps the excess at both ends.
void* map_huge_pages(std::size_t bytes) noexcept {
  const std::size_t size = whole_pages(bytes);
  if (size < bytes || size + huge_page_bytes < size) return nullptr;
  void* memory = mmap(nullptr, size + huge_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(memory);
  const std::size_t before =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes) % huge_page_bytes;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, huge_page_bytes - before);
  madvise(begin + before, size, MADV_HUGEPAGE);  // if this fails, the memory has small pages
  return begin + before;
}

void unmap_huge_pages(void* memory, std::size_t bytes) noexcept { munmap(memory, whole_pages(bytes)); }

#else

bool has_huge_pages() { return false; }
void* map_huge_pages(std::size_t) noexcept { return nullptr; }
void unmap_huge_pages(void*, std::size_t) noexcept {}

#endif

}  // namespace specdec
