// Reads of any bytes of a file past the system's cache, which want whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "platform/file.h"

namespace specdec {

// Bytes of memory for such a read of this many bytes, wherever they begin in the file.
constexpr std::size_t direct_bytes_for(std::size_t bytes) {
  return (bytes + direct_block_bytes - 1) / direct_block_bytes * direct_block_bytes + direct_block_bytes;
}

// Consecutive bytes of one of several files.
struct FileRange {
  std::size_t file;      // index
  std::uint64_t offset;  // bytes
  std::size_t bytes;
};

// Reads into memory aligned to direct_block_bytes and of at least direct_bytes_for(bytes). Returns where in it the
// bytes begin. Throws Error, also if the file ends earlier.
const std::uint8_t* read_directly(const File& file, std::uint64_t offset, std::size_t bytes, std::uint8_t* memory);

class DirectFiles {
 public:
  explicit DirectFiles(const std::vector<std::string>& paths);  // throws Error

  // As read_directly().
  const std::uint8_t* read(const FileRange& range, std::uint8_t* memory) const;
  // The same; null, with the reason, if it cannot be read.
  const std::uint8_t* try_read(const FileRange& range, std::uint8_t* memory, std::string& problem) const;

 private:
  std::vector<File> files_;
};

}  // namespace specdec
