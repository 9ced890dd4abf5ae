// Where on the disk a model's matrices lie in the layout that kernels read: stock types in a file of tiles
// (llama/tile_file.h), F16, BF16 and MXFP6 in the model's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gguf/gguf_file.h"
#include "llama/tile_memory.h"

struct ggml_tensor;
struct llama_model;

namespace specdec {

constexpr std::int64_t unit_rows = 16;    // kernels multiply that many rows at a time
constexpr std::size_t file_of_tiles = 0;  // others: the model's, from 1

// A matrix, or one for each expert.
struct WeightSource {
  ggml_tensor* weights;
  bool is_tiled, is_output;
  int layer;        // -1: of none
  bool is_of_head;  // of the multi-token prediction layers in the target's file
  std::size_t file;
  std::uint64_t offset;

  bool has_experts() const;
  std::int64_t rows() const;  // of each matrix
  std::int64_t num_matrices() const;
  // Of a matrix, before a row that begins a unit, or of all rows. Tiles are padded to whole ones.
  std::uint64_t bytes_before(std::int64_t row) const;
  std::uint64_t bytes_of_matrix() const { return bytes_before(rows()); }
  std::uint64_t bytes() const;
};

class WeightSources {
 public:
  // What our kernels multiply and passes use whole. files: the model's. Throws Error.
  WeightSources(const llama_model* model, const std::vector<GgufFile>& files);

  // In the order of the first pass as far as it is known: the output comes last.
  const std::vector<WeightSource>& all() const { return sources_; }
  std::vector<WeightSource> of_experts(bool are_of_experts) const;
  const std::vector<TileCopy>& copies() const { return copies_; }  // that the file of tiles has

 private:
  std::vector<WeightSource> sources_;
  std::vector<TileCopy> copies_;
};

std::uint64_t bytes_of(const std::vector<WeightSource>& sources);

}  // namespace specdec
