// platform/memory.h on Windows.
#include "platform/memory.h"

#include <windows.h>

namespace specdec {

std::uint64_t available_memory() {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) == 0 ? 0 : status.ullAvailPhys;
}

void release_file_pages(const void* memory, std::size_t bytes) noexcept {
  // Unlocking pages that are not locked removes them from the working set.
  VirtualUnlock(const_cast<void*>(memory), bytes);
}

void expect_random_reads(const void*, std::size_t) noexcept {}

}  // namespace specdec
