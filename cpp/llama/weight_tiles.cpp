#include "llama/weight_tiles.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "ggml-backend.h"
#include "graph/blocks.h"
#include "llama-model.h"
#include "platform/memory.h"

namespace specdec {
namespace {

// Whether the tensor lies in a mapped file, of which pages can be given back.
bool is_mapped(const ggml_tensor* tensor) {
  return tensor->buffer != nullptr && std::strcmp(ggml_backend_buft_name(ggml_backend_buffer_get_type(tensor->buffer)), "CPU_Mapped") == 0;
}

// What a matrix gets.
struct Copies {
  ggml_tensor* weights;
  int type;  // a ggml_type
  bool has_tiles, has_signs;
};

// Whether a draft's matrix becomes Q4_0.
bool is_rounded(const ggml_tensor* tensor, bool rounds_floats) {
  const bool is_float = tensor->type == GGML_TYPE_F16 || tensor->type == GGML_TYPE_BF16;
  const double bits = 8.0 * static_cast<double>(ggml_type_size(tensor->type)) / static_cast<double>(ggml_blck_size(tensor->type));
  return is_float ? rounds_floats : is_block_type(tensor->type) && bits > 4.5;
}

// Of the matrices that products read, each once: of the embedding only where it is also the output matrix.
std::vector<Copies> copies_of(const llama_model* model, TileWeights weights) {
  constexpr std::uint64_t cached_bytes = 64 << 20;  // a smaller model lies in the processor's caches, where F16 costs no more
  const bool rounds = weights == TileWeights::four_bits, is_large = llama_model_size(model) > cached_bytes;
  const auto& tensors = llama_internal_get_tensor_map(model);
  const bool has_output = std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) { return entry.first == "output.weight"; });
  std::vector<Copies> result;
  for (const auto& [name, tensor] : tensors) {
    const bool only_looked_up =
        name.rfind("per_layer_token_embd", 0) == 0 || name == "position_embd.weight" || (name == "token_embd.weight" && has_output);
    const auto is_same = [&, same = tensor](const Copies& copies) { return copies.weights == same; };
    if (only_looked_up || !is_mapped(tensor) || std::any_of(result.begin(), result.end(), is_same)) continue;
    const int type = rounds && is_rounded(tensor, is_large) ? GGML_TYPE_Q4_0 : tensor->type;
    const bool is_output = name == "output.weight" || name == "token_embd.weight", has_tiles = can_have_tiles(tensor, type);
    const bool has_signs = rounds && is_large && is_output && finds_best_rows(tensor);
    if (has_tiles || has_signs) result.push_back({tensor, type, has_tiles, has_signs});
  }
  return result;
}

std::vector<TileCopy> tile_copies(const std::vector<Copies>& all) {
  std::vector<TileCopy> result;
  for (const Copies& copies : all) {
    if (copies.has_tiles) result.push_back({copies.weights, copies.type});
    if (copies.has_signs) result.push_back({copies.weights, GGML_TYPE_Q1_0});
  }
  return result;
}

}  // namespace

TileWeights parse_tile_weights(const std::string& text) {
  if (text == "file") return TileWeights::exact;
  if (text == "4-bit") return TileWeights::four_bits;
  throw std::invalid_argument("must be \"4-bit\" or \"file\"");
}

std::uint64_t WeightTiles::bytes_of(const llama_model* model, TileWeights weights) {
  return TileMemory::bytes_of(tile_copies(copies_of(model, weights)));
}

WeightTiles::WeightTiles(const llama_model* model, TileWeights weights, int num_threads, const std::function<void(double)>& progress) {
  const std::vector<Copies> all = copies_of(model, weights);
  memory_ = std::make_unique<TileMemory>(tile_copies(all), num_threads, progress);
  tiles_.reserve(all.size());
  std::size_t next = 0;
  for (const Copies& copies : all) {
    const std::uint8_t* tiles = copies.has_tiles ? memory_->tiles(next++) : nullptr;
    tiles_.push_back({copies.type, tiles, copies.has_signs ? memory_->tiles(next++) : nullptr});
    use_tiles(copies.weights, &tiles_.back());
    if (copies.has_tiles) release_file_pages(copies.weights->data, ggml_nbytes(copies.weights));
  }
}

}  // namespace specdec
