#include "streaming/disk_speed.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/index.h"
#include "base/parallel.h"
#include "platform/file.h"
#include "streaming/direct_reads.h"
#include "streaming/slot_memory.h"

namespace specdec {

double disk_speed(const std::string& path) {
  constexpr std::size_t read_bytes = std::size_t{2} << 20;
  constexpr std::uint64_t most_reads = 32;
  const File file = File::open_direct(path);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(std::filesystem::u8path(path), error);
  const std::uint64_t count = error ? 0 : std::clamp<std::uint64_t>(size / read_bytes, 1, most_reads);
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(size, read_bytes));
  const auto start = std::chrono::steady_clock::now();
  for_each_piece(num_readers, static_cast<std::int64_t>(count), [&](std::int64_t i) {
    const SlotMemory memory(1, direct_bytes_for(bytes));
    read_directly(file, (size - bytes) / count * idx(i), bytes, memory.slot(0));
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(count * bytes) / std::max(1e-9, seconds.count());
}

}  // namespace specdec
