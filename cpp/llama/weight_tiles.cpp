#include "llama/weight_tiles.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/weight_mixture.h"
#include "graph/blocks.h"
#include "llama-model.h"
#include "llama/matrices.h"
#include "platform/memory.h"

namespace specdec {
namespace {

double bits_of(int type) {
  const auto of_ggml = static_cast<ggml_type>(type);
  return 8.0 * static_cast<double>(ggml_type_size(of_ggml)) / static_cast<double>(ggml_blck_size(of_ggml));
}

// How a draft's matrices are rounded: those with more bits than a type become this type.
struct Rounding {
  WeightMixture types;
  bool of_other_types;  // also rounds floats and MXFP6, not only stock types
};

Rounding rounding_of(TileWeights weights, bool is_sensitive, bool is_large) {
  if (weights == TileWeights::three_bits) return {mixture_of_3_bits, true};
  if (weights == TileWeights::two_bits) return {mixture_of_2_bits, true};
  const BlockType type = is_sensitive ? BlockType::q8_0 : BlockType::q4_0;
  return {{type, type, type}, is_large};
}

int rounded_type(const ggml_tensor* tensor, const Rounding& rounding) {
  const int wanted = id(rounding.types.of(tensor->name));
  const int type = can_have_tiles(tensor, wanted) ? wanted : GGML_TYPE_Q4_0;
  const bool may_be = is_block_type(tensor->type) || (rounding.of_other_types && has_our_products(tensor));
  return may_be && bits_of(tensor->type) > bits_of(type) ? type : tensor->type;
}

}  // namespace

// Such a matrix has no other copy: the second of the two passes reads few rows, which cost little in the file's layout.
bool is_of_signs(const TileCopy& copy) { return copy.type == GGML_TYPE_Q1_0 && copy.weights->type != GGML_TYPE_Q1_0; }

std::vector<TileCopy> tile_copies_of(const llama_model* model, TileWeights weights) {
  constexpr std::uint64_t bytes_in_caches =
      64 << 20;  // a smaller model fits into the processor's caches, where bytes cost little
  constexpr std::int64_t sensitive_weights = 200000000;
  const bool rounds = weights != TileWeights::exact, is_large = llama_model_size(model) > bytes_in_caches;
  const std::vector<Matrix> matrices = matrices_of(model);
  std::int64_t num_weights = 0;
  for (const Matrix& matrix : matrices) num_weights += matrix.is_output ? 0 : ggml_nelements(matrix.weights);
  const bool is_sensitive = weights == TileWeights::automatic && num_weights < sensitive_weights;
  const Rounding rounding = rounding_of(weights, is_sensitive, is_large);
  std::vector<TileCopy> result;
  for (const auto& [tensor, is_output] : matrices) {
    const bool has_signs = rounds && is_large && is_output && finds_best_rows(tensor);
    const int type = has_signs ? GGML_TYPE_Q1_0 : rounds ? rounded_type(tensor, rounding) : tensor->type;
    if (can_have_tiles(tensor, type)) result.push_back({tensor, type});
  }
  return result;
}

TileWeights parse_tile_weights(const std::string& text) {
  if (text == "file") return TileWeights::exact;
  if (text == "4-bit") return TileWeights::four_bits;
  if (text == "3-bit") return TileWeights::three_bits;
  if (text == "2-bit") return TileWeights::two_bits;
  if (text == "auto") return TileWeights::automatic;
  throw std::invalid_argument("must be \"auto\", \"4-bit\", \"3-bit\", \"2-bit\" or \"file\"");
}

std::uint64_t WeightTiles::bytes_of(const llama_model* model, TileWeights weights) {
  return TileMemory::bytes_of(tile_copies_of(model, weights));
}

WeightTiles::WeightTiles(const llama_model* model, TileWeights weights, int num_threads,
                         const std::function<void(double)>& progress, TileCache* cache, const ModelFiles* files) {
  const std::vector<TileCopy> copies = tile_copies_of(model, weights);
  memory_ = kept_or_made(copies, num_threads, progress, cache, files);
  tiles_.reserve(copies.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const TileCopy& copy = copies[i];
    tiles_.push_back(is_of_signs(copy) ? BlockTiles{copy.weights->type, nullptr, memory_->tiles(i)}
                                       : BlockTiles{copy.type, memory_->tiles(i)});
    use_tiles(copy.weights, &tiles_.back());
    if (!is_of_signs(copy)) release_file_pages(copy.weights->data, ggml_nbytes(copy.weights));
  }
}

}  // namespace specdec
