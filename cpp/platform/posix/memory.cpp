// platform/memory.h on POSIX systems.
#include "platform/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "platform/cgroup.h"

namespace specdec {
namespace {

std::uint64_t free_memory_of_the_system() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kibibytes = 0;
  for (std::string rest; meminfo >> key >> kibibytes; std::getline(meminfo, rest)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t available_memory() {
  const std::uint64_t system = free_memory_of_the_system(), group = cgroup_limits().available_memory;
  if (group == CgroupLimits::no_limit) return system;
  return std::max<std::uint64_t>(1, system == 0 ? group : std::min(system, group));
}

void release_file_pages(const void* memory, std::size_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)),
             start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (start + page - 1) / page * page, last = (start + bytes) / page * page;
  if (first < last)
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
}

void expect_random_reads(const void* memory, std::size_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)),
             start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = start / page * page;
  madvise(reinterpret_cast<void*>(first), start + bytes - first, MADV_RANDOM);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace specdec
