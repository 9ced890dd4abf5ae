#include "llama/tile_file.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/index.h"
#include "base/parallel.h"
#include "disk_cache/checked_file.h"
#include "platform/huge_pages.h"

namespace specdec {
namespace {

constexpr char magic[] = "SDTILES1";
constexpr std::size_t piece_bytes = 2 * huge_page_bytes, hash_bytes = 16, tiles_at = huge_page_bytes;

std::int64_t num_pieces(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + piece_bytes - 1) / piece_bytes);
}

std::string number(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// The part before the hashes, which must be equal.
std::string start_of(const std::string& key, std::size_t bytes) {
  return magic + number(key.size()) + key + number(bytes);
}

std::size_t header_bytes(const std::string& start, std::size_t bytes) {
  return start.size() + (idx(num_pieces(bytes)) + 1) * hash_bytes;
}

}  // namespace

void write_tile_file(File& file, const std::string& key, const std::uint8_t* tiles, std::size_t bytes) {
  std::string header = start_of(key, bytes);
  if (header_bytes(header, bytes) > tiles_at) throw Error("there are too many tiles for one file");
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    const std::size_t count = std::min(piece_bytes, bytes - at);
    header += content_hash(tiles + at, count);
    file.write(tiles_at + at, tiles + at, count);
  }
  header += content_hash(header.data(), header.size());
  file.write(0, header.data(), header.size());
}

std::unique_ptr<SharedMapping> map_tile_file(const std::string& path, const std::string& key, std::size_t bytes,
                                             int num_threads, const std::function<void(double)>& progress) {
  const auto fail = [&] { throw UnusableFile(path + ": is damaged"); };
  const std::string start = start_of(key, bytes);
  std::string header(header_bytes(start, bytes), '\0');
  if (header.size() > tiles_at) fail();
  {
    const File file = File::open(path);
    if (file.read_some(0, header.data(), header.size()) != header.size()) fail();
  }
  if (header.compare(0, start.size(), start) != 0) throw UnusableFile(path + ": is for another model or version");
  const std::size_t end = header.size() - hash_bytes;
  if (header.compare(end, hash_bytes, content_hash(header.data(), end)) != 0) fail();
  std::error_code error;
  if (std::filesystem::file_size(path, error) != tiles_at + bytes || error) fail();
  std::unique_ptr<SharedMapping> mapping = SharedMapping::of(path, tiles_at, bytes);
  if (mapping == nullptr) return nullptr;
  std::atomic<std::int64_t> num_done{0};
  const std::int64_t count = num_pieces(bytes);
  const auto check = [&](std::int64_t i, int) {
    const std::size_t at = idx(i) * piece_bytes, size = std::min(piece_bytes, bytes - at);
    if (!mapping->populate(at, size)) throw UnusableFile(path + ": cannot be read; check the disk");
    const std::string hash = content_hash(mapping->data() + at, size);
    if (header.compare(start.size() + idx(i) * hash_bytes, hash_bytes, hash) != 0) fail();
    ++num_done;
  };
  const auto tick = [&] { progress(std::min(0.999, static_cast<double>(num_done) / static_cast<double>(count))); };
  for_each_piece(num_threads, count, check, tick);
  return mapping;
}

}  // namespace specdec
