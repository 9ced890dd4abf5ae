#include "llama/rounded_weights.h"

#include <algorithm>

#include "ggml.h"
#include "graph/blocks.h"
#include "graph/streamed_matrix.h"
#include "llama/matrices.h"
#include "platform/memory.h"

namespace specdec {
namespace {

// Whether passes read it from the disk, or some of it.
bool is_streamed(const BlockTiles* tiles) {
  if (tiles == nullptr) return false;
  return tiles->experts != nullptr || (tiles->streamed != nullptr && tiles->streamed->matrix >= 0);
}

// Signs are read before the best rows of the matrix itself, which must be in memory as tiles or in the file's layout.
bool can_have_copy(const TileCopy& copy, bool are_streamed) {
  const BlockTiles* const own = tiles_of(copy.weights);
  if (is_of_signs(copy)) return !are_streamed || (own != nullptr && own->data != nullptr);
  return copy.type != copy.weights->type && (!are_streamed || is_streamed(own));
}

std::uint64_t bytes_of_best_rows(const ggml_tensor* weights) { return ggml_nbytes(weights) / 8; }

}  // namespace

RoundedWeights::RoundedWeights(const llama_model* model, TileWeights weights, bool are_streamed, int num_threads,
                               const std::function<void(double)>& progress, TileCache* cache, const ModelFiles* files) {
  if (weights == TileWeights::exact) return;
  std::vector<TileCopy> copies = tile_copies_of(model, weights);
  copies.erase(std::remove_if(copies.begin(), copies.end(),
                              [&](const TileCopy& copy) { return !can_have_copy(copy, are_streamed); }),
               copies.end());
  if (!copies.empty()) memory_ = kept_or_made(copies, num_threads, progress, cache, files);
  for (const Matrix& matrix : matrices_of(model)) bytes_of_pass_ += ggml_nbytes(matrix.weights);
  pairs_.reserve(copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto& [tensor, type] = copies[i];
    const BlockTiles* const own = tiles_of(tensor);
    const bool has_signs = is_of_signs(copies[i]);
    BlockTiles copy{type, memory_->tiles(i)};
    if (has_signs)
      copy = {own == nullptr ? tensor->type : own->type, own == nullptr ? nullptr : own->data, memory_->tiles(i)};
    pairs_.push_back({tensor, own, copy});
    bytes_of_pass_ -= ggml_nbytes(tensor);
    bytes_of_pass_ += tiles_bytes(tensor, type) + (has_signs ? bytes_of_best_rows(tensor) : 0);
    if (are_streamed) release_file_pages(tensor->data, ggml_nbytes(tensor));
  }
}

void RoundedWeights::use(bool copies) const {
  for (const Pair& pair : pairs_) use_tiles(pair.weights, copies ? &pair.copy : pair.own);
}

std::vector<std::uint64_t> bytes_of_copies(const llama_model* model, TileWeights weights,
                                           const std::vector<const ggml_tensor*>& matrices) {
  std::vector<TileCopy> copies;
  if (weights != TileWeights::exact) copies = tile_copies_of(model, weights);
  std::vector<std::uint64_t> bytes;
  for (const ggml_tensor* const matrix : matrices) {
    const auto of_matrix = [matrix](const TileCopy& copy) { return copy.weights == matrix; };
    const auto found = std::find_if(copies.begin(), copies.end(), of_matrix);
    bytes.push_back(found == copies.end() ? 0 : tiles_bytes(found->weights, found->type));
  }
  return bytes;
}

}  // namespace specdec
