// Copies of matrices as tiles (graph/blocks.h), one after another in memory of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

struct ggml_tensor;

namespace specdec {

struct TileCopy {
  ggml_tensor* weights;
  int type;  // a ggml_type that the weights can have tiles of
};

// Writes bytes [at, at + count) of the copies, one after another. Throws std::bad_alloc.
void write_tile_bytes(const std::vector<TileCopy>& copies, std::size_t at, std::size_t count, std::uint8_t* to);

class TileMemory {
 public:
  static std::uint64_t bytes_of(const std::vector<TileCopy>& copies);

  // Makes the copies on this many threads. Calls progress(share done) on this thread, at the end with 1; it may throw
  // to stop. Throws std::bad_alloc.
  TileMemory(const std::vector<TileCopy>& copies, int num_threads, const std::function<void(double)>& progress);
  // Adopts these copies, made earlier.
  TileMemory(const std::vector<TileCopy>& copies, std::shared_ptr<const std::uint8_t> memory);

  const std::uint8_t* tiles(std::size_t copy) const { return tiles_[copy]; }
  const std::shared_ptr<const std::uint8_t>& memory() const { return memory_; }
  // Recomputes a few of the tiles and compares them. Throws std::bad_alloc.
  bool is_of(const std::vector<TileCopy>& copies) const;

 private:
  std::shared_ptr<const std::uint8_t> memory_;
  std::vector<const std::uint8_t*> tiles_;
};

}  // namespace specdec
