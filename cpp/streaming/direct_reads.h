// Reads of any bytes of a file past the system's cache, which want whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/file.h"

namespace specdec {

// Bytes of memory for such a read of this many bytes, wherever they begin in the file.
constexpr std::size_t direct_bytes_for(std::size_t bytes) {
  return (bytes + direct_block_bytes - 1) / direct_block_bytes * direct_block_bytes + direct_block_bytes;
}

// Reads into memory aligned to direct_block_bytes and of at least direct_bytes_for(bytes). Returns where in it the
// bytes begin. Throws Error, also if the file ends earlier.
const std::uint8_t* read_directly(const File& file, std::uint64_t offset, std::size_t bytes, std::uint8_t* memory);

}  // namespace specdec
