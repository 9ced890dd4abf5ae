#include "graph/blocks.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/isa.h"
#include "graph/matmul.h"
#include "weights/blocks/kernels.h"

namespace specdec {
namespace {

std::optional<blocks::Type> type_of(int type) {
  using blocks::Type;
  switch (type) {
    case GGML_TYPE_Q4_0:
      return Type::q4_0;
    case GGML_TYPE_Q4_1:
      return Type::q4_1;
    case GGML_TYPE_Q5_0:
      return Type::q5_0;
    case GGML_TYPE_Q5_1:
      return Type::q5_1;
    case GGML_TYPE_Q8_0:
      return Type::q8_0;
    case GGML_TYPE_IQ4_NL:
      return Type::iq4_nl;
    case GGML_TYPE_IQ4_XS:
      return Type::iq4_xs;
    case GGML_TYPE_Q2_K:
      return Type::q2_k;
    case GGML_TYPE_Q3_K:
      return Type::q3_k;
    case GGML_TYPE_Q4_K:
      return Type::q4_k;
    case GGML_TYPE_Q5_K:
      return Type::q5_k;
    case GGML_TYPE_Q6_K:
      return Type::q6_k;
    default:
      return std::nullopt;
  }
}

// ggml leaves `extra` of weights in ordinary memory to nobody else.
const BlockTiles* tiles_of(const ggml_tensor* weights) { return static_cast<const BlockTiles*>(weights->extra); }

// Also 8-bit keys and values of attention without flash attention. Rows may lie apart in any way.
struct BlockFormat {
  explicit BlockFormat(const ggml_tensor* t)
      : tiles(tiles_of(t)), type(*type_of(tiles != nullptr ? tiles->type : t->type)), k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  const char* rejection(const ggml_tensor*) const { return nullptr; }  // block_traits has looked
  std::int64_t blocks() const { return k / blocks::block_size; }
  std::int64_t expert_rows() const { return 4 * blocks::tile_rows; }
  // Long pieces, since the first tile of each is not fetched ahead, but four of a small matrix for every thread.
  std::int64_t chunk_rows(int num_threads) const {
    const std::int64_t pieces = 4 * num_threads * blocks::tile_rows;
    return std::min<std::int64_t>(16, (rows + pieces - 1) / pieces) * blocks::tile_rows;
  }
  std::size_t panel_bytes(std::int64_t n) const { return blocks::panel_bytes(n, k); }
  std::size_t scratch_bytes(std::int64_t n) const { return blocks::scratch_bytes(n); }

  void pack(const float* x, std::int64_t n, std::int64_t column, std::int64_t block_begin, std::int64_t block_end, void* panel) const {
    kernels().pack(type, x, n, k, column, block_begin, block_end, static_cast<blocks::PanelBlock*>(panel));
  }
  void multiply(std::int64_t i2, std::int64_t i3, const void* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
                float* out, std::int64_t ldo, void* scratch) const {
    const auto* weights = reinterpret_cast<const std::uint8_t*>(row_of(tensor, 0, i2, i3));
    const std::uint8_t* copy = tiles != nullptr ? tiles->data + i2 * blocks::tiles_bytes(type, rows, k) : nullptr;
    const blocks::Matrix matrix{type, weights, static_cast<std::int64_t>(tensor->nb[1]), k, copy};
    kernels().matmul(matrix, static_cast<const blocks::PanelBlock*>(panel), n, row_begin, row_end, out, ldo, scratch);
  }

  static const blocks::Kernels& kernels() {
    static const blocks::Kernels& chosen = pick(blocks::all_kernels());
    return chosen;
  }

  const BlockTiles* tiles;
  blocks::Type type;
  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

}  // namespace

bool is_block_type(int ggml_type) { return type_of(ggml_type).has_value(); }

bool can_have_tiles(const ggml_tensor* weights, int type) {
  if (!is_block_type(type) || weights->ne[0] % ggml_blck_size(static_cast<ggml_type>(type)) != 0) return false;
  if (type != weights->type && ggml_get_type_traits(weights->type)->to_float == nullptr) return false;
  return ggml_is_contiguous(weights) && weights->ne[3] == 1 && weights->view_src == nullptr;
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
  if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return nullptr;
  const ggml_tensor* w = op->src[0];
  if (!is_block_type(w->type) && tiles_of(w) == nullptr) return nullptr;
  if (w->nb[0] != ggml_type_size(w->type) || !valid_activations(op->src[1])) return nullptr;
  if (op->op == GGML_OP_MUL_MAT) return &matmul;
  return &experts;
}

}  // namespace specdec
