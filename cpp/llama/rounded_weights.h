// Copies of a model's matrices in few bits, beside its own, with which it drafts for itself: no second model is loaded,
// and drafts read the keys and values of the target's own passes.
//
// Where weights are read from the disk in every pass (llama/streamed_weights.h), a matrix that stays in memory as a
// whole has no copy: drafts read it as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "llama/weight_tiles.h"

namespace specdec {

class RoundedWeights {
 public:
  // To be called once the model's own tiles are in use. are_streamed: passes read them from the disk, as far as they do
  // not stay. Threads, progress and errors as in TileMemory. cache: null, or a source of finished copies. files: the
  // model's. Must outlive the model.
  RoundedWeights(const llama_model* model, TileWeights weights, bool are_streamed, int num_threads,
                 const std::function<void(double)>& progress, TileCache* cache, const ModelFiles* files);

  // Whether passes read the copies from now on. To be called between passes.
  void use(bool copies) const;

  std::uint64_t bytes_of_pass() const { return bytes_of_pass_; }  // that a pass with the copies reads from memory

 private:
  struct Pair {
    ggml_tensor* weights;
    const BlockTiles* own;  // null: passes read the file's rows
    BlockTiles copy;
  };
  std::unique_ptr<TileMemory> memory_;
  std::vector<Pair> pairs_;
  std::uint64_t bytes_of_pass_ = 0;
};

// What copies of these matrices take, in bytes, in the same order. weights: exact: there are none.
std::vector<std::uint64_t> bytes_of_copies(const llama_model* model, TileWeights weights,
                                           const std::vector<const ggml_tensor*>& matrices);

}  // namespace specdec
