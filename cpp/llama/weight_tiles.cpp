#include "llama/weight_tiles.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>
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

struct Copy {
  ggml_tensor* weights;
  int type;    // a ggml_type
  bool signs;  // as Q1_0, too
};

std::uint64_t bytes_of(const Copy& copy) {
  return tiles_bytes(copy.weights, copy.type) + (copy.signs ? tiles_bytes(copy.weights, GGML_TYPE_Q1_0) : 0);
}

// Whether a draft's matrix becomes Q4_0.
bool is_rounded(const ggml_tensor* tensor, bool rounds_floats) {
  const bool is_float = tensor->type == GGML_TYPE_F16 || tensor->type == GGML_TYPE_BF16;
  const double bits = 8.0 * static_cast<double>(ggml_type_size(tensor->type)) / static_cast<double>(ggml_blck_size(tensor->type));
  return is_float ? rounds_floats : is_block_type(tensor->type) && bits > 4.5;
}

// Copies of the matrices that products read, each once: of the embedding only where it is also the output matrix.
std::vector<Copy> copies(const llama_model* model, TileWeights weights) {
  constexpr std::uint64_t cached_bytes = 64 << 20;  // a smaller model lies in the processor's caches, where F16 costs no more
  const bool rounds = weights == TileWeights::four_bits, is_large = llama_model_size(model) > cached_bytes;
  const auto& tensors = llama_internal_get_tensor_map(model);
  const bool has_output = std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) { return entry.first == "output.weight"; });
  std::vector<Copy> result;
  for (const auto& [name, tensor] : tensors) {
    const bool only_looked_up =
        name.rfind("per_layer_token_embd", 0) == 0 || name == "position_embd.weight" || (name == "token_embd.weight" && has_output);
    const int type = rounds && is_rounded(tensor, is_large) ? GGML_TYPE_Q4_0 : tensor->type;
    if (only_looked_up || !is_mapped(tensor) || !can_have_tiles(tensor, type)) continue;
    const auto is_same = [&, same = tensor](const Copy& copy) { return copy.weights == same; };
    if (std::any_of(result.begin(), result.end(), is_same)) continue;
    const bool is_output = name == "output.weight" || name == "token_embd.weight";
    result.push_back({tensor, type, rounds && is_large && is_output && finds_best_rows(tensor)});
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
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies(model, weights)) bytes += specdec::bytes_of(copy);
  return bytes;
}

WeightTiles::WeightTiles(const llama_model* model, TileWeights weights, int num_threads, const std::function<void(double)>& progress)
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
  const std::vector<Copy> all = copies(model, weights);
  std::vector<Piece> pieces;
  std::uint8_t* at = memory_.get();
  const auto add_pieces = [&](const ggml_tensor* tensor, int type) {
    const std::int64_t count = num_tiles(tensor);
    for (std::int64_t first = 0; first < count; first += tiles_at_once) {
      pieces.push_back({tensor, type, first, std::min(count, first + tiles_at_once), at});
    }
    return std::exchange(at, at + tiles_bytes(tensor, type));
  };
  for (const Copy& copy : all) {
    const std::uint8_t* tiles = add_pieces(copy.weights, copy.type);
    tiles_.push_back({copy.type, tiles, copy.signs ? add_pieces(copy.weights, GGML_TYPE_Q1_0) : nullptr});
  }
  std::atomic<std::int64_t> num_done{0};
  const auto write = [&](std::int64_t i, int) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    write_tiles(piece.tensor, piece.type, piece.first, piece.last, piece.tiles);
    ++num_done;
  };
  const auto tick = [&] { progress(std::min(0.999, static_cast<double>(num_done) / static_cast<double>(pieces.size()))); };
  for_each_piece(num_threads, static_cast<std::int64_t>(pieces.size()), write, tick);
  progress(1.0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    use_tiles(all[i].weights, &tiles_[i]);
    release_file_pages(all[i].weights->data, ggml_nbytes(all[i].weights));
  }
}

void WeightTiles::Unmap::operator()(std::uint8_t* memory) const { unmap_huge_pages(memory, bytes); }

}  // namespace specdec
