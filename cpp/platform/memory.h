// Memory that the operating system has available for models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specdec {

// Bytes available without swapping and within the container's limit (platform/cgroup.h); 0 if unknown.
std::uint64_t available_memory();

// For messages: "12 MiB", rounded up.
inline std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

// Removes whole pages of a mapped file from this process's memory; they are read again when used. Only for memory that
// maps a file.
void release_file_pages(const void* memory, std::size_t bytes) noexcept;
// The same memory will be read here and there: reading one page should not bring its neighbours, which would push out
// others where memory is short.
void expect_random_reads(const void* memory, std::size_t bytes) noexcept;

}  // namespace specdec
