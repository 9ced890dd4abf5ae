// The memory that the operating system has available for models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specdec {

// Bytes available without swapping and within the container's limit (platform/cgroup.h); 0 if unknown.
std::uint64_t available_memory();

// For messages: "12 MiB", rounded up.
inline std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

// Takes whole pages of a mapped file out of this process; they are read again when used. Elsewhere than in a file it
// must not be used.
void release_file_pages(const void* memory, std::size_t bytes) noexcept;

}  // namespace specdec
