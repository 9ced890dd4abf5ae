// The Format of matmul.h for stock quantized matrices, on the kernels of weights/blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/isa.h"
#include "graph/blocks.h"
#include "graph/grids.h"
#include "graph/matmul.h"
#include "weights/blocks/kernels.h"

namespace specdec {

// The type that a ggml_type stands for; nullopt for types that these kernels lack.
inline std::optional<blocks::Type> type_of(int type) {
  using blocks::Type;
  switch (type) {
    case GGML_TYPE_Q1_0:
      return Type::q1_0;
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
    case GGML_TYPE_MXFP4:
      return Type::mxfp4;
    case GGML_TYPE_NVFP4:
      return Type::nvfp4;
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
    case GGML_TYPE_Q2_0:
      return Type::q2_0;
    case GGML_TYPE_TQ1_0:
      return Type::tq1_0;
    case GGML_TYPE_TQ2_0:
      return Type::tq2_0;
    case GGML_TYPE_IQ3_S:
      return with_grids(Type::iq3_s);
    case GGML_TYPE_IQ3_XXS:
      return with_grids(Type::iq3_xxs);
    case GGML_TYPE_IQ2_S:
      return with_grids(Type::iq2_s);
    case GGML_TYPE_IQ2_XS:
      return with_grids(Type::iq2_xs);
    case GGML_TYPE_IQ2_XXS:
      return with_grids(Type::iq2_xxs);
    case GGML_TYPE_IQ1_S:
      return with_grids(Type::iq1_s);
    case GGML_TYPE_IQ1_M:
      return with_grids(Type::iq1_m);
    default:
      return std::nullopt;
  }
}

// Also used for 8-bit keys and values of attention without flash attention. Rows may have any stride.
struct BlockFormat {
  explicit BlockFormat(const ggml_tensor* t)
      : BlockFormat(t, tiles_of(t) != nullptr ? tiles_of(t)->type : t->type,
                    tiles_of(t) != nullptr ? tiles_of(t)->data : nullptr) {}
  BlockFormat(const ggml_tensor* t, int ggml_type, const std::uint8_t* with_tiles)
      : tiles(with_tiles), type(*type_of(ggml_type)), k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  const char* rejection(const ggml_tensor*) const { return nullptr; }  // block_traits has checked them
  std::int64_t blocks() const { return k / blocks::block_size; }
  std::int64_t expert_rows() const { return 4 * blocks::tile_rows; }
  // Pieces are long, because the first tile of each is not prefetched; a small matrix has four pieces for every thread.
  std::int64_t chunk_rows(int num_threads) const {
    const std::int64_t pieces = 4 * num_threads * blocks::tile_rows;
    return std::min<std::int64_t>(16, (rows + pieces - 1) / pieces) * blocks::tile_rows;
  }
  std::size_t panel_bytes(std::int64_t n) const { return blocks::panel_bytes(n, k); }
  std::size_t scratch_bytes(std::int64_t n) const { return blocks::scratch_bytes(n); }

  void pack(const float* x, std::int64_t n, std::int64_t column, std::int64_t block_begin, std::int64_t block_end,
            void* panel) const {
    kernels().pack(type, x, n, k, column, block_begin, block_end, static_cast<blocks::PanelBlock*>(panel));
  }
  void multiply(std::int64_t i2, std::int64_t i3, const void* panel, std::int64_t n, std::int64_t row_begin,
                std::int64_t row_end, float* out, std::int64_t ldo, void* scratch) const {
    const auto* weights = reinterpret_cast<const std::uint8_t*>(row_of(tensor, 0, i2, i3));
    const std::uint8_t* copy = tiles != nullptr ? tiles + i2 * blocks::tiles_bytes(type, rows, k) : nullptr;
    const blocks::Matrix matrix{type, weights, static_cast<std::int64_t>(tensor->nb[1]), k, copy};
    kernels().matmul(matrix, static_cast<const blocks::PanelBlock*>(panel), n, row_begin, row_end, out, ldo, scratch);
  }

  static const blocks::Kernels& kernels() {
    static const blocks::Kernels& chosen = pick(blocks::all_kernels());
    return chosen;
  }

  const std::uint8_t* tiles;  // or null
  blocks::Type type;
  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

}  // namespace specdec
