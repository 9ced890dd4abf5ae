// The memory of stb_image, which decodes pictures: bounded, since a file of a few kilobytes can ask for gigabytes.
#pragma once

#include <cstddef>

namespace specdec {

// While it exists, what stb_image allocates on this thread is limited to so many bytes together; beyond, decoding
// fails.
class StbMemory {
 public:
  explicit StbMemory(std::size_t most_bytes);
  ~StbMemory();
  StbMemory(const StbMemory&) = delete;
  StbMemory& operator=(const StbMemory&) = delete;
};

}  // namespace specdec
