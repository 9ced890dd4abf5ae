// The Format of matmul.h for matrices of F16, BF16 or F32, on the kernels of weights/floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/isa.h"
#include "graph/matmul.h"
#include "weights/floats/kernels.h"

namespace specdec {

// Also used for matrices that are not weights: keys and values of attention without flash attention, states of
// recurrent layers. Rows may have any stride.
struct FloatFormat {
  explicit FloatFormat(const ggml_tensor* t) : k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  const char* rejection(const ggml_tensor*) const { return nullptr; }  // float_traits has checked them
  std::int64_t blocks() const { return floats::num_blocks(k); }
  std::int64_t expert_rows() const {  // at most one band
    const std::int64_t tile_bytes = floats::tile_rows * static_cast<std::int64_t>(tensor->nb[1]);
    return floats::tile_rows *
           std::clamp<std::int64_t>(floats::band_bytes / std::max<std::int64_t>(tile_bytes, 1), 1, 4);
  }
  std::int64_t chunk_rows(int num_threads) const {  // the same, but at least two pieces per thread for small matrices
    const std::int64_t pieces = 2 * num_threads * floats::tile_rows;
    return std::min(expert_rows(), (rows + pieces - 1) / pieces * floats::tile_rows);
  }
  std::size_t panel_bytes(std::int64_t n) const { return floats::panel_floats(n, k) * sizeof(float); }
  std::size_t scratch_bytes(std::int64_t) const { return 0; }

  void pack(const float* x, std::int64_t n, std::int64_t column, std::int64_t block_begin, std::int64_t block_end,
            void* panel) const {
    floats::pack(kernels(), x, n, k, column, block_begin, block_end, static_cast<float*>(panel));
  }
  const std::uint8_t* matrix(std::int64_t i2, std::int64_t i3) const {
    return reinterpret_cast<const std::uint8_t*>(row_of(tensor, 0, i2, i3));
  }
  void multiply(const std::uint8_t* first_row, const void* panel, std::int64_t n, std::int64_t row_begin,
                std::int64_t row_end, float* out, std::int64_t ldo, void*) const {
    const floats::Matrix matrix{type(), first_row, static_cast<std::int64_t>(tensor->nb[1]), k};
    kernels().matmul(matrix, static_cast<const float*>(panel), n, row_begin, row_end, out, ldo);
  }

  static const floats::Kernels& kernels() {
    static const floats::Kernels& chosen = pick(floats::all_kernels());
    return chosen;
  }
  floats::Type type() const {
    return tensor->type == GGML_TYPE_F16    ? floats::Type::f16
           : tensor->type == GGML_TYPE_BF16 ? floats::Type::bf16
                                            : floats::Type::f32;
  }

  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

// Whether a matrix is of these types.
inline bool is_float(const ggml_tensor* w) {
  const bool type = w->type == GGML_TYPE_F16 || w->type == GGML_TYPE_BF16 || w->type == GGML_TYPE_F32;
  return type && w->nb[0] == ggml_type_size(w->type);
}

}  // namespace specdec
