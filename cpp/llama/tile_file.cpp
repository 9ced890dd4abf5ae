#include "llama/tile_file.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/parallel.h"
#include "disk_cache/checked_file.h"
#include "platform/huge_pages.h"
#include "streaming/direct_reads.h"
#include "streaming/slot_memory.h"

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

// A file of tiles that may be read: its header, checked.
class CheckedHeader {
 public:
  // Throws UnusableFile or Error.
  CheckedHeader(const std::string& path, const std::string& key, std::size_t bytes)
      : path_(path), start_(start_of(key, bytes)), header_(header_bytes(start_, bytes), '\0') {
    if (header_.size() > tiles_at) fail();
    const File file = File::open(path);
    if (file.read_some(0, header_.data(), header_.size()) != header_.size()) fail();
    if (header_.compare(0, start_.size(), start_) != 0) throw UnusableFile(path + ": is for another model or version");
    const std::size_t end = header_.size() - hash_bytes;
    if (header_.compare(end, hash_bytes, content_hash(header_.data(), end)) != 0) fail();
    std::error_code error;
    if (std::filesystem::file_size(path, error) != tiles_at + bytes || error) fail();
  }

  void check(std::int64_t piece, const std::uint8_t* tiles, std::size_t count) const {
    if (header_.compare(start_.size() + idx(piece) * hash_bytes, hash_bytes, content_hash(tiles, count)) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const { throw UnusableFile(path_ + ": is damaged"); }

  const std::string path_, start_;
  std::string header_;
};

// Runs work(piece, at, count) for all pieces on these threads.
void for_all_pieces(std::size_t bytes, int num_threads, const std::function<void(double)>& progress,
                    const std::function<void(std::int64_t, std::size_t, std::size_t)>& work) {
  std::atomic<std::int64_t> num_done{0};
  const std::int64_t count = num_pieces(bytes);
  const auto one = [&](std::int64_t i, int) {
    const std::size_t at = idx(i) * piece_bytes;
    work(i, at, std::min(piece_bytes, bytes - at));
    ++num_done;
  };
  const auto tick = [&] { progress(std::min(0.999, static_cast<double>(num_done) / static_cast<double>(count))); };
  for_each_piece(num_threads, count, one, tick);
}

}  // namespace

std::size_t tile_file_start() { return tiles_at; }

void write_tile_file(File& file, const std::string& key, std::size_t bytes, const TileBytes& tiles, int num_threads,
                     const std::function<void(double)>& progress) {
  const std::string start = start_of(key, bytes);
  std::string header = start;
  header.resize(header_bytes(start, bytes));
  if (header.size() > tiles_at) throw Error("there are too many tiles for one file");
  for_all_pieces(bytes, num_threads, progress, [&](std::int64_t piece, std::size_t at, std::size_t count) {
    static thread_local std::vector<std::uint8_t> memory;
    memory.resize(piece_bytes);
    const std::uint8_t* const from = tiles(at, count, memory.data());
    const std::string hash = content_hash(from, count);
    hash.copy(header.data() + start.size() + idx(piece) * hash_bytes, hash_bytes);
    file.write(tiles_at + at, from, count);
    file.write_back(tiles_at + at, count);
  });
  const std::size_t end = header.size() - hash_bytes;
  content_hash(header.data(), end).copy(header.data() + end, hash_bytes);
  file.write(0, header.data(), header.size());
}

std::unique_ptr<SharedMapping> map_tile_file(const std::string& path, const std::string& key, std::size_t bytes,
                                             int num_threads, const std::function<void(double)>& progress) {
  const CheckedHeader header(path, key, bytes);
  std::unique_ptr<SharedMapping> mapping = SharedMapping::of(path, tiles_at, bytes);
  if (mapping == nullptr) return nullptr;
  for_all_pieces(bytes, num_threads, progress, [&](std::int64_t piece, std::size_t at, std::size_t count) {
    if (!mapping->populate(at, count)) throw UnusableFile(path + ": cannot be read; check the disk");
    header.check(piece, mapping->data() + at, count);
  });
  return mapping;
}

void read_tile_file(const std::string& path, const std::string& key, std::size_t bytes, int num_threads,
                    const std::function<void(std::size_t, const std::uint8_t*, std::size_t)>& visit,
                    const std::function<void(double)>& progress) {
  const CheckedHeader header(path, key, bytes);
  const File file = File::open_direct(path);
  for_all_pieces(bytes, num_threads, progress, [&](std::int64_t piece, std::size_t at, std::size_t count) {
    const SlotMemory memory(1, direct_bytes_for(count));
    const std::uint8_t* const tiles = read_directly(file, tiles_at + at, count, memory.slot(0));
    header.check(piece, tiles, count);
    visit(at, tiles, count);
  });
}

}  // namespace specdec
