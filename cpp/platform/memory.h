// The memory that the operating system has available for models.
#pragma once

#include <cstdint>

namespace specdec {

// Bytes available without swapping and within the container's limit (platform/cgroup.h); 0 if unknown.
std::uint64_t available_memory();

}  // namespace specdec
