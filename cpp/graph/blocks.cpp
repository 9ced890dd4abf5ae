#include "graph/blocks.h"

#include <algorithm>
#include <vector>

#include "graph/best_rows.h"
#include "graph/block_format.h"

namespace specdec {

bool is_block_type(int ggml_type) { return type_of(ggml_type).has_value(); }

bool can_have_tiles(const ggml_tensor* weights, int type) {
  if (!is_block_type(type) || weights->ne[0] % ggml_blck_size(static_cast<ggml_type>(type)) != 0) return false;
  if (type != weights->type && ggml_get_type_traits(weights->type)->to_float == nullptr) return false;
  return ggml_is_contiguous(weights) && weights->ne[3] == 1 && weights->view_src == nullptr;
}

bool finds_best_rows(const ggml_tensor* weights) {
  constexpr std::int64_t least_tiles = 8 * BestRows::num_best;  // a quarter of the bytes for signs, an eighth for the best rows
  return can_have_tiles(weights, GGML_TYPE_Q1_0) && weights->ne[2] == 1 && num_tiles(weights) >= least_tiles;
}

std::int64_t num_tiles(const ggml_tensor* weights) { return (weights->ne[1] + blocks::tile_rows - 1) / blocks::tile_rows * weights->ne[2]; }

std::uint64_t tiles_bytes(const ggml_tensor* weights, int type) {
  return static_cast<std::uint64_t>(blocks::tiles_bytes(*type_of(type), weights->ne[1], weights->ne[0]) * weights->ne[2]);
}

void write_tiles(const ggml_tensor* weights, int type, std::int64_t first, std::int64_t last, std::uint8_t* tiles) {
  const std::int64_t k = weights->ne[0], rows = weights->ne[1], per_matrix = num_tiles(weights) / weights->ne[2];
  const auto row_bytes = static_cast<std::int64_t>(ggml_row_size(static_cast<ggml_type>(type), k));
  const bool rounds = type != weights->type;
  std::vector<float> values(static_cast<std::size_t>(rounds ? blocks::tile_rows * k : 0));
  std::vector<std::uint8_t> rounded(static_cast<std::size_t>(rounds ? blocks::tile_rows * row_bytes : 0));
  for (std::int64_t tile = first; tile < last; ++tile) {
    const std::int64_t row = tile % per_matrix * blocks::tile_rows, count = std::min<std::int64_t>(blocks::tile_rows, rows - row);
    const void* from = row_of(weights, row, tile / per_matrix, 0);
    if (rounds) {
      ggml_get_type_traits(weights->type)->to_float(from, values.data(), count * k);
      ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), rounded.data(), 0, count, k, nullptr);
      from = rounded.data();
    }
    blocks::write_tile(*type_of(type), static_cast<const std::uint8_t*>(from), row_bytes, static_cast<int>(count), k,
                       tiles + tile * blocks::tile_bytes(*type_of(type), k));
  }
}

void use_tiles(ggml_tensor* weights, const BlockTiles* tiles) { weights->extra = const_cast<BlockTiles*>(tiles); }

ggml::cpu::tensor_traits* block_traits(const ggml_tensor* op) {
  static MatMul<BlockFormat> matmul;
  static MatMulExperts<BlockFormat> experts;
  static BestRows best_rows;
  if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return nullptr;
  const ggml_tensor* w = op->src[0];
  if (!is_block_type(w->type) && tiles_of(w) == nullptr) return nullptr;
  if (w->nb[0] != ggml_type_size(w->type) || !valid_activations(op->src[1])) return nullptr;
  if (op->op == GGML_OP_MUL_MAT && tiles_of(w) != nullptr && tiles_of(w)->signs != nullptr) return &best_rows;
  if (op->op == GGML_OP_MUL_MAT) return &matmul;
  return &experts;
}

}  // namespace specdec
