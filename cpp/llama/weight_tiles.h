// Copies of a model's stock weights (Q4_K and its kin) in the order in which our kernels multiply them (weights/blocks/tiles.h). One
// token's pass then reads memory from one end to the other, up to twice as fast as transposing a file's rows. The bits of the products
// do not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

struct llama_model;

namespace specdec {

class WeightTiles {
 public:
  // Bytes that the copies of this model take: of all its matrices of such types in mapped files.
  static std::uint64_t bytes_of(const llama_model* model);

  // Makes the copies, of at least one matrix, on this many threads and releases the pages of the mapped file. Lives longer than the
  // model. Throws std::bad_alloc.
  WeightTiles(const llama_model* model, int num_threads);

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::uint8_t* memory) const;
  };
  std::unique_ptr<std::uint8_t, Unmap> memory_;
};

}  // namespace specdec
