// Keeps tiles for later processes in a folder (disk_cache/bounded_folder.h). A later start maps a file, which processes
// share, instead of repacking weights. Nothing here makes a run fail: without a file, weights are repacked.
//
// The key of an entry is the state of the model's files and the list of their matrices with the types of the copies. An
// entry is used if its bytes are unchanged (llama/tile_file.h) and a few tiles, recomputed from the model, are equal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "disk_cache/bounded_folder.h"
#include "llama/tile_memory.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace specdec {

class GgufFile;

// The files of a model, and their state (platform/file.h) before any of their weights was read.
class ModelFiles {
 public:
  explicit ModelFiles(const std::vector<GgufFile>& parts);  // throws Error
  const std::string& state() const { return state_; }
  bool are_unchanged() const;  // throws Error

 private:
  std::vector<std::string> paths_;
  std::string state_;
};

class TileCache {
 public:
  explicit TileCache(const FolderLimit& limit);  // throws Error
  ~TileCache();                                  // abandons what is being written
  TileCache(const TileCache&) = delete;
  TileCache& operator=(const TileCache&) = delete;

  bool has_tiles_of(const ModelFiles& model) const;  // with any types of copies
  // Null if there are no usable tiles. Threads, progress and errors as in TileMemory.
  std::unique_ptr<TileMemory> find(const ModelFiles& model, const std::vector<TileCopy>& copies, int num_threads,
                                   const std::function<void(double)>& progress);
  // Reads the tiles past the system's cache (llama/tile_file.h), after writing them if there are none that are usable.
  // Threads and progress as in TileMemory; visit: on any of the threads. Returns the path of the file. Throws Error if
  // they can be neither found nor kept.
  std::string read(const ModelFiles& model, const std::vector<TileCopy>& copies, int num_threads,
                   const std::function<void(std::size_t, const std::uint8_t*, std::size_t)>& visit,
                   const std::function<void(double)>& progress);
  // Writes these tiles on another thread, unless another process is writing them.
  void keep(const ModelFiles& model, const std::vector<TileCopy>& copies, const TileMemory& tiles);
  std::vector<std::string> take_notes();  // sentences about what could not be read or kept

 private:
  struct Entry;
  void write(File file, const Entry& entry, const std::uint8_t* tiles);
  void make(const Entry& entry, const std::vector<TileCopy>& copies, int num_threads,
            const std::function<void(double)>& progress);
  void make_private(const SharedMapping& tiles, std::size_t bytes) const;

  const BoundedFolder folder_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::atomic<bool> is_ending_{false};
  std::vector<std::thread> threads_;
};

// Those that the cache, which may be null, has kept, or new ones, which it then keeps. files: the model's.
std::unique_ptr<TileMemory> kept_or_made(const std::vector<TileCopy>& copies, int num_threads,
                                         const std::function<void(double)>& progress, TileCache* cache,
                                         const ModelFiles* files);

}  // namespace specdec
