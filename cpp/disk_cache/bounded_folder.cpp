#include "disk_cache/bounded_folder.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "platform/output_file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// Bytes of the disk that must stay free: a twentieth, at most 10 GiB.
std::uint64_t bytes_to_leave(const fs::space_info& disk) {
  return std::min<std::uint64_t>(disk.capacity / 20, std::uint64_t{10} << 30);
}

}  // namespace

FolderLimit parse_folder_limit(const std::string& text, std::uint64_t default_bytes) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return {text, default_bytes};
  const std::string size = text.substr(colon + 1);
  if (size.find_first_not_of("0123456789") != std::string::npos || size.size() > 8) return {text, default_bytes};
  return {text.substr(0, colon), std::uint64_t{std::stoul(size)} << 20};
}

BoundedFolder::BoundedFolder(std::string folder, std::uint64_t most_bytes, std::string extension)
    : folder_(std::move(folder)), extension_(std::move(extension)), most_bytes_(most_bytes) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(folder_ + ": cannot be created as a folder: " + error.message());
  for (const File& file : files_with(true)) {
    if (is_abandoned(file.path)) fs::remove(file.path, error);
  }
}

// Files that another process removes meanwhile are left out.
std::vector<BoundedFolder::File> BoundedFolder::files_with(bool is_temporary) const {
  std::vector<File> files;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    const bool is_part = path.extension().string().rfind(".part", 0) == 0;
    if (is_part != is_temporary || (is_part ? path.stem() : path).extension() != extension_) continue;
    std::error_code failure;
    File file{path, fs::last_write_time(path, failure), 0};
    if (!failure) file.bytes = fs::file_size(path, failure);
    if (!failure) files.push_back(std::move(file));
  }
  return files;
}

std::vector<BoundedFolder::File> BoundedFolder::files() const { return files_with(false); }

void BoundedFolder::mark_used(const std::string& name) const noexcept {
  std::error_code ignored;
  fs::last_write_time(path_of(name), fs::file_time_type::clock::now(), ignored);
}

void BoundedFolder::remove(const std::string& name) const noexcept {
  std::error_code ignored;
  fs::remove(path_of(name), ignored);
}

bool BoundedFolder::make_room(std::uint64_t bytes) const {
  if (bytes > most_bytes_) return false;
  std::error_code error;
  const fs::space_info disk = fs::space(folder_, error);
  const std::uint64_t needed = error ? 0 : bytes + bytes_to_leave(disk);
  std::vector<File> found = files();
  std::sort(found.begin(), found.end(), [](const File& a, const File& b) { return a.used < b.used; });
  std::uint64_t held = 0, available = error ? 0 : disk.available;
  for (const File& file : found) held += file.bytes;
  if (available + held < needed) return false;
  for (auto file = found.begin(); (held + bytes > most_bytes_ || available < needed) && file != found.end(); ++file) {
    if (!fs::remove(file->path, error)) continue;
    held -= file->bytes;
    available += file->bytes;
  }
  return held + bytes <= most_bytes_ && available >= needed;
}

}  // namespace specdec
