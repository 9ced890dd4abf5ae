// Memory in pages of 2 MiB instead of 4 KiB: reading it needs fewer page walks, and hardware prefetching, which stops
// at page boundaries, is interrupted less often.
#pragma once

#include <cstddef>

namespace specdec {

constexpr std::size_t huge_page_bytes = 2u << 20;

// Whether the system provides huge pages on request.
bool has_huge_pages();

// Zeroed memory aligned to huge pages and rounded up to whole ones, or null. Uses small pages if the system has no huge
// ones.
void* map_huge_pages(std::size_t bytes) noexcept;
void unmap_huge_pages(void* memory, std::size_t bytes) noexcept;  // `bytes` as given to map_huge_pages

}  // namespace specdec
