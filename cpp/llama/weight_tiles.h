// Copies of a model's stock weights (Q4_K and its kin) in the order in which our kernels multiply them
// (weights/blocks/tiles.h). One token's pass then reads memory from one end to the other, up to twice as fast as
// transposing a file's rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/blocks.h"
#include "llama/tile_cache.h"
#include "llama/tile_memory.h"

struct llama_model;

namespace specdec {

// exact: of the file's types, with the same bits of all products. The others are for drafts, which propose almost the
// same tokens in less time; verification is exact for any proposal. four_bits: types of more than 4.5 bits per weight
// are rounded to Q4_0, F16, BF16 and MXFP6 too in models of more than 64 MiB, whose output matrix, if it has many rows,
// gets a copy of its signs instead: logits are then found in two passes (graph/best_rows.h). automatic: the same, but
// of models of less than 200 million weights, output matrix apart, only floats are rounded, to Q8_0: 4 bits cost these
// more drafts than they gain time.
enum class TileWeights { exact, four_bits, automatic };
TileWeights parse_tile_weights(const std::string& text);  // "file", "4-bit", "auto"; throws std::invalid_argument

class WeightTiles {
 public:
  // Bytes that the copies of this model take: of all its matrices of such types in mapped files.
  static std::uint64_t bytes_of(const llama_model* model, TileWeights weights);

  // Makes the copies, of at least one matrix, and releases the pages of the mapped file. Lives longer than the model.
  // Threads, progress and errors: TileMemory. cache: null, or where they may be from; files: of the model.
  WeightTiles(const llama_model* model, TileWeights weights, int num_threads,
              const std::function<void(double)>& progress, TileCache* cache = nullptr,
              const ModelFiles* files = nullptr);

 private:
  std::unique_ptr<TileMemory> memory_;
  std::vector<BlockTiles> tiles_;  // tensors point to these
};

}  // namespace specdec
