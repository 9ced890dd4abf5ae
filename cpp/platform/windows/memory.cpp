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
  // Of pages that are not locked it takes them out of the process.
  VirtualUnlock(const_cast<void*>(memory), bytes);
}

}  // namespace specdec
