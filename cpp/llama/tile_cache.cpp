#include "llama/tile_cache.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "disk_cache/checked_file.h"
#include "ggml.h"
#include "gguf/gguf_file.h"
#include "graph/blocks.h"
#include "llama/tile_file.h"
#include "platform/huge_pages.h"
#include "platform/memory.h"
#include "platform/output_file.h"
#include "platform/process.h"

namespace specdec {
namespace {

// Tiles are written only after the first tokens of a text: both need memory bandwidth.
constexpr std::chrono::seconds first_tokens(2);
// Smaller copies fit into the processor's caches, where the page size matters little.
constexpr std::uint64_t cached_bytes = 64 << 20;
constexpr std::size_t bytes_at_once = 16 * huge_page_bytes;

std::string state_of(const std::vector<std::string>& paths) {
  std::string state;
  for (const std::string& path : paths) state += file_state(path) + "\n";
  return state;
}

std::string hash_of(const std::string& text) { return content_hash(text.data(), text.size()); }

// All that the tiles depend on except the model's bytes. Tiles are the same for all instruction sets.
std::string list_of(const std::vector<TileCopy>& copies) {
  std::string list = "layout " + std::to_string(tile_layout()) + "\n";
  for (const auto& [weights, type] : copies) {
    list += std::string(weights->name) + " " + std::to_string(weights->type) + " " + std::to_string(type);
    for (const std::int64_t size : weights->ne) list += " " + std::to_string(size);
    list += "\n";
  }
  return list;
}

// The pages of the model's file that tiles [at, at + count) in bytes were made from.
void release_sources(const std::vector<TileCopy>& copies, std::size_t at, std::size_t count) {
  std::size_t start = 0;  // of a copy
  for (const auto& [weights, type] : copies) {
    const std::size_t bytes = static_cast<std::size_t>(tiles_bytes(weights, type)), end = start + bytes;
    const std::size_t first = std::max(at, start), last = std::min(at + count, end);
    if (first < last) {
      const double of_source = static_cast<double>(ggml_nbytes(weights)) / static_cast<double>(bytes);
      const auto from = static_cast<std::size_t>(static_cast<double>(first - start) * of_source);
      const auto to = static_cast<std::size_t>(static_cast<double>(last - start) * of_source);
      release_file_pages(static_cast<const char*>(weights->data) + from, to - from);
    }
    start = end;
  }
}

std::string prefix_of(const ModelFiles& model) { return hash_of(model.state()) + "-"; }

}  // namespace

struct TileCache::Entry {
  Entry(const ModelFiles& model, const std::vector<TileCopy>& copies)
      : key(model.state() + list_of(copies)),
        name(prefix_of(model) + hash_of(key) + ".tiles"),
        bytes(static_cast<std::size_t>(TileMemory::bytes_of(copies))) {}

  std::string key, name;
  std::size_t bytes;
};

ModelFiles::ModelFiles(const std::vector<GgufFile>& parts) {
  for (const GgufFile& part : parts) paths_.push_back(part.path);
  state_ = state_of(paths_);
}

bool ModelFiles::are_unchanged() const { return state_of(paths_) == state_; }

TileCache::TileCache(const FolderLimit& limit) : folder_(limit.folder, limit.most_bytes, ".tiles") {}

TileCache::~TileCache() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  ending_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<std::string> TileCache::take_notes() { return std::exchange(notes_, {}); }

bool TileCache::has_tiles_of(const ModelFiles& model) const {
  const std::string prefix = prefix_of(model);
  const std::vector<BoundedFolder::File> files = folder_.files();
  return std::any_of(files.begin(), files.end(), [&](const BoundedFolder::File& file) {
    return file.path.filename().string().rfind(prefix, 0) == 0;
  });
}

std::unique_ptr<TileMemory> TileCache::find(const ModelFiles& model, const std::vector<TileCopy>& copies,
                                            int num_threads, const std::function<void(double)>& progress) {
  const Entry entry(model, copies);
  const std::string path = folder_.path_of(entry.name).string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nullptr;
  try {
    const std::shared_ptr<SharedMapping> mapping = map_tile_file(path, entry.key, entry.bytes, num_threads, progress);
    if (mapping == nullptr || !model.are_unchanged()) return nullptr;
    auto tiles = std::make_unique<TileMemory>(copies, std::shared_ptr<const std::uint8_t>(mapping, mapping->data()));
    if (!tiles->is_of(copies)) throw UnusableFile(path + ": has tiles for another model");
    folder_.mark_used(entry.name);
    if (entry.bytes > cached_bytes && !mapping->is_in_huge_pages())
      threads_.emplace_back([this, mapping, bytes = entry.bytes] { make_private(*mapping, bytes); });
    return tiles;
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    notes_.push_back(std::string("kept weights are repacked again: ") + error.what());
    folder_.remove(entry.name);
  } catch (const std::system_error&) {  // no thread
  }
  return nullptr;
}

std::string TileCache::read(const ModelFiles& model, const std::vector<TileCopy>& copies, int num_threads,
                            const std::function<void(std::size_t, const std::uint8_t*, std::size_t)>& visit,
                            const std::function<void(double)>& progress) {
  const Entry entry(model, copies);
  const std::string path = folder_.path_of(entry.name).string();
  for (bool is_made = false;; is_made = true) {
    std::error_code ignored;
    if (is_made || std::filesystem::exists(path, ignored)) {
      try {
        read_tile_file(path, entry.key, entry.bytes, num_threads, visit, progress);
        if (!model.are_unchanged()) throw Error("the model's file was changed while it was loaded; load it again");
        folder_.mark_used(entry.name);
        return path;
      } catch (const UnusableFile& error) {
        folder_.remove(entry.name);
        if (is_made) throw;
        notes_.push_back(std::string("kept weights are repacked again: ") + error.what());
      }
    }
    make(entry, copies, num_threads, progress);
  }
}

void TileCache::make(const Entry& entry, const std::vector<TileCopy>& copies, int num_threads,
                     const std::function<void(double)>& progress) {
  if (!folder_.make_room(entry.bytes + huge_page_bytes)) {
    throw Error(folder_.path() + ": has no room for repacked weights of " + mebibytes(entry.bytes) +
                "; raise its limit, or free some of the disk");
  }
  OutputFile output(folder_.path_of(entry.name).string(), true, "");
  const auto from_model = [&](std::size_t at, std::size_t count, std::uint8_t* memory) -> const std::uint8_t* {
    write_tile_bytes(copies, at, count, memory);
    release_sources(copies, at, count);
    return memory;
  };
  write_tile_file(output.file(), entry.key, entry.bytes, from_model, num_threads, progress);
  output.publish();
}

// With the file's small pages, passes take a tenth longer.
void TileCache::make_private(const SharedMapping& tiles, std::size_t bytes) const {
  for (std::size_t at = 0; at < bytes && !is_ending_; at += bytes_at_once) {
    const std::size_t whole = std::min(bytes_at_once, bytes - at) / huge_page_bytes * huge_page_bytes;
    if (whole > 0 && !tiles.make_private(at, whole)) return;
  }
}

void TileCache::keep(const ModelFiles& model, const std::vector<TileCopy>& copies, const TileMemory& tiles) {
  try {
    if (!model.are_unchanged()) return;
    Entry entry(model, copies);
    if (!folder_.make_room(entry.bytes + huge_page_bytes)) {
      notes_.push_back(folder_.path() + ": has no room for repacked weights of " + mebibytes(entry.bytes) +
                       "; raise its limit, or free some of the disk");
      return;
    }
    const std::string part = entry.name + ".part";
    auto file = std::make_shared<std::optional<File>>(claim_partial(folder_.path_of(part).string()));
    if (!file->has_value()) return;
    try {
      threads_.emplace_back([this, file, entry = std::move(entry), memory = tiles.memory()] {
        write(std::move(**file), entry, memory.get());
      });
    } catch (...) {
      folder_.remove(part);
      throw;
    }
  } catch (const std::exception& error) {
    notes_.push_back(std::string("repacked weights are not kept: ") + error.what());
  }
}

void TileCache::write(File file, const Entry& entry, const std::uint8_t* tiles) {
  run_this_thread_when_idle();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ending_.wait_for(lock, first_tokens, [this] { return is_ending_.load(); });
  }
  const std::string part = entry.name + ".part";
  try {
    const auto in_memory = [&](std::size_t at, std::size_t, std::uint8_t*) { return tiles + at; };
    write_tile_file(file, entry.key, entry.bytes, in_memory, 1, [](double) {});
    file.close();
    replace_file(folder_.path_of(part).string(), folder_.path_of(entry.name).string());
  } catch (const std::exception&) {  // a full disk
    folder_.remove(part);
  }
}

std::unique_ptr<TileMemory> kept_or_made(const std::vector<TileCopy>& copies, int num_threads,
                                         const std::function<void(double)>& progress, TileCache* cache,
                                         const ModelFiles* files) {
  std::unique_ptr<TileMemory> tiles = cache != nullptr ? cache->find(*files, copies, num_threads, progress) : nullptr;
  if (tiles != nullptr) return tiles;
  tiles = std::make_unique<TileMemory>(copies, num_threads, progress);
  if (cache != nullptr) cache->keep(*files, copies, *tiles);
  return tiles;
}

}  // namespace specdec
