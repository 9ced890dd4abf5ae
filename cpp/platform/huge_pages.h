// Memory in pages of 2 MiB instead of 4 KiB: reading it needs fewer page walks, and the processor's prefetching, which stops at
// the end of a page, goes on.
#pragma once

#include <cstddef>

namespace specdec {

constexpr std::size_t huge_page_bytes = 2u << 20;

// Whether the system gives such pages to processes that ask for them.
bool has_huge_pages();

// Zeroed memory that begins at a huge page and has whole ones, or null. Where the system has none to give it is in small pages.
void* map_huge_pages(std::size_t bytes) noexcept;
void unmap_huge_pages(void* memory, std::size_t bytes) noexcept;  // the same `bytes`

}  // namespace specdec
