#include "llama/weight_tiles.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/parallel.h"
#include "ggml-backend.h"
#include "graph/blocks.h"
#include "llama-model.h"
#include "platform/huge_pages.h"
#include "platform/memory.h"

namespace specdec {
namespace {

// Whether the tensor lies in a mapped file, of which pages can be given back.
bool is_mapped(const ggml_tensor* tensor) {
  return tensor->buffer != nullptr && std::strcmp(ggml_backend_buft_name(ggml_backend_buffer_get_type(tensor->buffer)), "CPU_Mapped") == 0;
}

// Matrices that products read, each once: the embedding only where it is also the output matrix.
std::vector<ggml_tensor*> matrices(const llama_model* model) {
  const auto& tensors = llama_internal_get_tensor_map(model);
  const bool has_output = std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) { return entry.first == "output.weight"; });
  std::vector<ggml_tensor*> result;
  for (const auto& [name, tensor] : tensors) {
    const bool only_looked_up = name.rfind("per_layer_token_embd", 0) == 0 || (name == "token_embd.weight" && has_output);
    if (only_looked_up || !is_mapped(tensor) || !has_tiles(tensor)) continue;
    if (std::find(result.begin(), result.end(), tensor) == result.end()) result.push_back(tensor);
  }
  return result;
}

// The type of a matrix's copy.
int type_of_copy(const ggml_tensor* tensor, TileWeights weights) {
  constexpr ggml_type narrow = GGML_TYPE_Q4_0;
  const bool rounds =
      weights == TileWeights::four_bits && ggml_row_size(tensor->type, tensor->ne[0]) > ggml_row_size(narrow, tensor->ne[0]);
  return rounds ? narrow : tensor->type;
}

}  // namespace

TileWeights parse_tile_weights(const std::string& text) {
  if (text == "file") return TileWeights::exact;
  if (text == "4-bit") return TileWeights::four_bits;
  throw std::invalid_argument("must be \"4-bit\" or \"file\"");
}

std::uint64_t WeightTiles::bytes_of(const llama_model* model, TileWeights weights) {
  std::uint64_t bytes = 0;
  for (const ggml_tensor* tensor : matrices(model)) bytes += tiles_bytes(tensor, type_of_copy(tensor, weights));
  return bytes;
}

WeightTiles::WeightTiles(const llama_model* model, TileWeights weights, int num_threads)
    : memory_(nullptr, Unmap{bytes_of(model, weights)}) {
  memory_.reset(static_cast<std::uint8_t*>(map_huge_pages(memory_.get_deleter().bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  struct Piece {
    const ggml_tensor* tensor;
    int type;
    std::int64_t first, last;
    std::uint8_t* tiles;  // of the whole tensor
  };
  constexpr std::int64_t tiles_at_once = 64;
  const std::vector<ggml_tensor*> tensors = matrices(model);
  std::vector<Piece> pieces;
  std::uint8_t* at = memory_.get();
  for (const ggml_tensor* tensor : tensors) {
    const int type = type_of_copy(tensor, weights);
    const std::int64_t count = num_tiles(tensor);
    for (std::int64_t first = 0; first < count; first += tiles_at_once) {
      pieces.push_back({tensor, type, first, std::min(count, first + tiles_at_once), at});
    }
    tiles_.push_back({type, at});
    at += tiles_bytes(tensor, type);
  }
  for_each_piece(num_threads, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    write_tiles(piece.tensor, piece.type, piece.first, piece.last, piece.tiles);
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    use_tiles(tensors[i], &tiles_[i]);
    release_file_pages(tensors[i]->data, ggml_nbytes(tensors[i]));
  }
}

void WeightTiles::Unmap::operator()(std::uint8_t* memory) const { unmap_huge_pages(memory, bytes); }

}  // namespace specdec
