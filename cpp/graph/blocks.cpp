#include "graph/blocks.h"

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "graph/best_rows.h"
#include "graph/block_format.h"
#include "graph/mxfp6.h"
#include "weights/blocks/draft_rounding.h"

namespace specdec {
namespace {

bool can_decode(const ggml_tensor* weights) {
  return is_mxfp6(weights) || ggml_get_type_traits(weights->type)->to_float != nullptr;
}

// values [count, k]: rows of one of the matrices.
void decode_matrix_rows(const ggml_tensor* weights, std::int64_t matrix, std::int64_t first, std::int64_t count,
                        float* values) {
  if (is_mxfp6(weights)) return decode_mxfp6_rows(weights, matrix, first, count, values);
  ggml_get_type_traits(weights->type)->to_float(row_of(weights, first, matrix, 0), values, count * weights->ne[0]);
}

}  // namespace

bool is_block_type(int ggml_type) { return type_of(ggml_type).has_value(); }

bool can_decode_rows(const ggml_tensor* weights) { return weights->type == GGML_TYPE_F32 || can_decode(weights); }

void decode_rows(const ggml_tensor* weights, std::int64_t first, std::int64_t count, float* values) {
  if (weights->type == GGML_TYPE_F32)
    std::copy_n(static_cast<const float*>(row_of(weights, first, 0, 0)), count * weights->ne[0], values);
  else decode_matrix_rows(weights, 0, first, count, values);
}

bool can_have_tiles(const ggml_tensor* weights, int type) {
  if (!is_block_type(type) || weights->ne[0] % ggml_blck_size(static_cast<ggml_type>(type)) != 0) return false;
  if (type != weights->type && !can_decode(weights)) return false;
  return ggml_is_contiguous(weights) && weights->ne[3] == 1 && weights->view_src == nullptr;
}

bool has_our_products(const ggml_tensor* weights) {
  return is_block_type(weights->type) || is_mxfp6(weights) || weights->type == GGML_TYPE_F16 ||
         weights->type == GGML_TYPE_BF16;
}

bool finds_best_rows(const ggml_tensor* weights) {
  constexpr std::int64_t least_tiles =
      8 * num_best_tiles;  // a quarter of the bytes for signs, an eighth for the best rows
  return weights->type != GGML_TYPE_Q1_0 && has_our_products(weights) && can_have_tiles(weights, GGML_TYPE_Q1_0) &&
         weights->ne[2] == 1 && num_tiles(weights) >= least_tiles;
}

int tile_layout() { return blocks::tile_layout; }

std::int64_t num_tiles(const ggml_tensor* weights) {
  return (weights->ne[1] + blocks::tile_rows - 1) / blocks::tile_rows * weights->ne[2];
}

std::uint64_t tiles_bytes(const ggml_tensor* weights, int type) {
  return static_cast<std::uint64_t>(num_tiles(weights)) * bytes_of_tile(weights, type);
}

std::uint64_t bytes_of_tile(const ggml_tensor* weights, int type) {
  return static_cast<std::uint64_t>(blocks::tile_bytes(*type_of(type), weights->ne[0]));
}

void write_tiles(const ggml_tensor* weights, int type, std::int64_t first, std::int64_t last, std::uint8_t* to) {
  const std::int64_t k = weights->ne[0], rows = weights->ne[1], per_matrix = num_tiles(weights) / weights->ne[2];
  const auto row_bytes = static_cast<std::int64_t>(ggml_row_size(static_cast<ggml_type>(type), k));
  const bool rounds = type != weights->type;
  std::vector<float> values(idx(rounds ? blocks::tile_rows * k : 0));
  std::vector<std::uint8_t> rounded(idx(rounds ? blocks::tile_rows * row_bytes : 0));
  for (std::int64_t tile = first; tile < last; ++tile) {
    const std::int64_t row = tile % per_matrix * blocks::tile_rows,
                       count = std::min<std::int64_t>(blocks::tile_rows, rows - row);
    const void* from = row_of(weights, row, tile / per_matrix, 0);
    if (rounds) {
      decode_matrix_rows(weights, tile / per_matrix, row, count, values.data());
      if (blocks::can_round_to(*type_of(type)))
        blocks::round_rows(*type_of(type), values.data(), count, k, rounded.data());
      else ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), rounded.data(), 0, count, k, nullptr);
      from = rounded.data();
    }
    blocks::write_tile(*type_of(type), static_cast<const std::uint8_t*>(from), row_bytes, static_cast<int>(count), k,
                       to + (tile - first) * blocks::tile_bytes(*type_of(type), k));
  }
}

// For weights in ordinary memory, nothing else in ggml uses `extra`.
void use_tiles(ggml_tensor* weights, const BlockTiles* tiles) { weights->extra = const_cast<BlockTiles*>(tiles); }
const BlockTiles* tiles_of(const ggml_tensor* weights) { return static_cast<const BlockTiles*>(weights->extra); }

ggml::cpu::tensor_traits* block_traits(const ggml_tensor* op) {
  const ggml_tensor* w = op->src[0];
  if (!is_product(op) || !valid_activations(op->src[1]) || w->nb[0] != ggml_type_size(w->type)) return nullptr;
  return is_block_type(w->type) || BlockFormat::tiles_data(w) != nullptr ? product_traits<BlockFormat>(op) : nullptr;
}

}  // namespace specdec
