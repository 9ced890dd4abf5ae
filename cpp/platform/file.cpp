#include "platform/file.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace specdec {

File::File(File&& other) noexcept : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(handle_, other.handle_);
  return *this;
}

void File::fail_short() const {
  throw Error(path_ + ": became shorter while it was read; do not change it while it is in use");
}

void File::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = read_some(offset + done, static_cast<char*>(to) + done, bytes - done);
    if (count == 0) fail_short();
    done += count;
  }
}

std::string File::read_all() const {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path_, error);
  std::string content;
  if (!error) content.reserve(static_cast<std::size_t>(size));
  std::vector<char> piece(1 << 20);
  while (const std::size_t count = read_some(content.size(), piece.data(), piece.size()))
    content.append(piece.data(), count);
  return content;
}

}  // namespace specdec
