// Copies of a model's stock weights (Q4_K and its kin) in the order in which our kernels multiply them (weights/blocks/tiles.h). One
// token's pass then reads memory from one end to the other, up to twice as fast as transposing a file's rows. The bits of the products
// do not change.
#pragma once

#include <cstdint>
#include <vector>

struct ggml_tensor;
struct llama_model;

namespace specdec {

class WeightTiles {
 public:
  // Bytes that the copies of this model take: of all its matrices of such types in mapped files.
  static std::uint64_t bytes_of(const llama_model* model);

  // Makes the copies on this many threads and gives the pages of the mapped file back. Throws std::bad_alloc.
  WeightTiles(const llama_model* model, int num_threads);
  ~WeightTiles();  // after the model
  WeightTiles(const WeightTiles&) = delete;
  WeightTiles& operator=(const WeightTiles&) = delete;

  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_;
  std::uint8_t* memory_;
};

}  // namespace specdec
