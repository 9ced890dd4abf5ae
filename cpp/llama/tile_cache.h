// Tiles that are kept for later processes in a folder (cache/bounded_folder.h): a start then maps a file, which other
// processes share, instead of repacking weights. Nothing here makes a run fail: without a file, weights are repacked.
//
// An entry is found by the state of the model's files and the list of their matrices, with the types of the copies. It
// is used if all its bytes are as they were written (llama/tile_file.h), and if a few tiles that are made once more
// from the model are the same.
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

#include "cache/bounded_folder.h"
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
  ~TileCache();                                  // ends what it writes
  TileCache(const TileCache&) = delete;
  TileCache& operator=(const TileCache&) = delete;

  bool has_tiles_of(const ModelFiles& model) const;  // of any copies
  // Null: there are none that can be used. Threads, progress and errors: TileMemory.
  std::unique_ptr<TileMemory> find(const ModelFiles& model, const std::vector<TileCopy>& copies, int num_threads,
                                   const std::function<void(double)>& progress);
  // Writes these tiles of the model on another thread, unless another process does.
  void keep(const ModelFiles& model, const std::vector<TileCopy>& copies, const TileMemory& tiles);
  std::vector<std::string> take_notes();  // what could not be read or kept, in sentences

 private:
  struct Entry;
  void write(File file, const Entry& entry, const std::uint8_t* tiles);
  void make_private(const SharedMapping& tiles, std::size_t bytes) const;

  const BoundedFolder folder_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::atomic<bool> is_ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace specdec
