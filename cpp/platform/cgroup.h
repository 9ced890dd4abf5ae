// Limits that a container or a service manager sets for this process (Linux control groups, version 2 and 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace specdec {

struct CgroupLimits {
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t available_memory = no_limit;              // bytes until the limit; page cache counts as available
  double cpus = std::numeric_limits<double>::infinity();  // processors' worth of time
};

// The tightest limits of the process's group and all groups above it. `root`: the folder with proc/ and sys/, which
// tests change. Missing or unreadable files limit nothing.
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace specdec
