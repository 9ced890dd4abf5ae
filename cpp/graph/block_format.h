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
  const WeightType* known = find_weight_type(type);
  if (known == nullptr || known->group == 0) return std::nullopt;
  return with_grids(static_cast<blocks::Type>(type));
}

// Also used for 8-bit keys and values of attention without flash attention. Rows may have any stride.
struct BlockFormat {
  explicit BlockFormat(const ggml_tensor* t)
      : BlockFormat(t, tiles_of(t) != nullptr ? tiles_of(t)->type : t->type, tiles_data(t)) {
    is_tiled = tiles != nullptr || streamed_of(t) != nullptr || experts_of(t) != nullptr;
  }
  BlockFormat(const ggml_tensor* t, int ggml_type, const std::uint8_t* with_tiles)
      : tiles(with_tiles),
        is_tiled(with_tiles != nullptr),
        type(*type_of(ggml_type)),
        k(t->ne[0]),
        rows(t->ne[1]),
        tensor(t) {}
  static const std::uint8_t* tiles_data(const ggml_tensor* t) {
    return tiles_of(t) != nullptr ? tiles_of(t)->data : nullptr;
  }

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
  const std::uint8_t* matrix(std::int64_t i2, std::int64_t i3) const {
    if (is_tiled) return tiles + i2 * blocks::tiles_bytes(type, rows, k);
    return reinterpret_cast<const std::uint8_t*>(row_of(tensor, 0, i2, i3));
  }
  void multiply(const std::uint8_t* first_row, const void* panel, std::int64_t n, std::int64_t row_begin,
                std::int64_t row_end, float* out, std::int64_t ldo, void* scratch) const {
    const blocks::Matrix matrix{type, is_tiled ? nullptr : first_row, static_cast<std::int64_t>(tensor->nb[1]), k,
                                is_tiled ? first_row : nullptr};
    kernels().matmul(matrix, static_cast<const blocks::PanelBlock*>(panel), n, row_begin, row_end, out, ldo, scratch);
  }

  static const blocks::Kernels& kernels() {
    static const blocks::Kernels& chosen = pick(blocks::all_kernels());
    return chosen;
  }

  const std::uint8_t* tiles;  // or null
  bool is_tiled;              // products read tiles
  blocks::Type type;
  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

}  // namespace specdec
