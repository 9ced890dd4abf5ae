// Copies of a model's stock weights (Q4_K, Q8_0, ...) in the order in which our kernels multiply them
// (weights/blocks/tiles.h). A pass over one token then reads memory sequentially, up to twice as fast as transposing
// the file's rows.
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

// exact: keeps the file's types and the bits of all products. The others are for drafts, which then propose almost the
// same tokens in less time; verification is exact for any proposal. four_bits: rounds types with more than 4.5 bits per
// weight to Q4_0. In models of more than 64 MiB it also rounds F16, BF16 and MXFP6, and an output matrix with many rows
// gets a copy of its signs instead: logits are then found in two passes (graph/best_rows.h). automatic: the same, but
// in models of less than 200 million weights (without the output matrix) it rounds only floats, to Q8_0: 4 bits cost
// such models more accepted drafts than they gain time. three_bits, two_bits: mixtures of Q3_K to Q5_K, and of Q2_K to
// Q4_K, for a draft that is a copy of the target.
enum class TileWeights { exact, four_bits, three_bits, two_bits, automatic };
TileWeights parse_tile_weights(
    const std::string& text);  // "file", "4-bit", "3-bit", "2-bit", "auto"; throws std::invalid_argument

// The copies that such tiles consist of. is_of_signs(): one that holds only the signs of an output matrix.
std::vector<TileCopy> tile_copies_of(const llama_model* model, TileWeights weights);
bool is_of_signs(const TileCopy& copy);

class WeightTiles {
 public:
  // Bytes that the copies take: of all the model's matrices of such types in mapped files.
  static std::uint64_t bytes_of(const llama_model* model, TileWeights weights);

  // Makes copies of at least one matrix and releases the pages of the mapped file. Must outlive the model. Threads,
  // progress and errors as in TileMemory. cache: null, or a source of finished copies. files: the model's.
  WeightTiles(const llama_model* model, TileWeights weights, int num_threads,
              const std::function<void(double)>& progress, TileCache* cache = nullptr,
              const ModelFiles* files = nullptr);

 private:
  std::unique_ptr<TileMemory> memory_;
  std::vector<BlockTiles> tiles_;  // tensors point to these
};

}  // namespace specdec
