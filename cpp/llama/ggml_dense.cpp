#include "llama/ggml_dense.h"

#include "dense/matmul.h"
#include "llama/ggml_matmul.h"
#include "mxfp6/dispatch.h"

namespace specdec {
namespace {

// Also matrices that are not weights: keys and values of attention without flash attention, states of recurrent layers. Rows may
// lie apart in any way.
struct DenseFormat {
  explicit DenseFormat(const ggml_tensor* t) : k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  const char* refusal(const ggml_tensor*) const { return nullptr; }  // dense_traits has looked
  std::int64_t blocks() const { return dense::num_blocks(k); }
  std::int64_t expert_rows() const {  // at most a band
    const std::int64_t tile_bytes = dense::tile_rows * static_cast<std::int64_t>(tensor->nb[1]);
    return dense::tile_rows * std::clamp<std::int64_t>(dense::band_bytes / std::max<std::int64_t>(tile_bytes, 1), 1, 4);
  }
  std::int64_t chunk_rows(int num_threads) const {  // the same, but two pieces of a small matrix for every thread
    const std::int64_t pieces = 2 * num_threads * dense::tile_rows;
    return std::min(expert_rows(), (rows + pieces - 1) / pieces * dense::tile_rows);
  }
  std::size_t panel_bytes(std::int64_t n) const { return dense::panel_floats(n, k) * sizeof(float); }
  std::size_t scratch_bytes(std::int64_t) const { return 0; }

  void pack(const float* x, std::int64_t n, std::int64_t column, std::int64_t block_begin, std::int64_t block_end, void* panel) const {
    dense::pack(kernels(), x, n, k, column, block_begin, block_end, static_cast<float*>(panel));
  }
  void multiply(std::int64_t i2, std::int64_t i3, const void* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
                float* out, std::int64_t ldo, void*) const {
    const dense::Matrix matrix{type(), row_of(tensor, 0, i2, i3), static_cast<std::int64_t>(tensor->nb[1]), k};
    kernels().matmul(matrix, static_cast<const float*>(panel), n, row_begin, row_end, out, ldo);
  }

  static const dense::Kernels& kernels() {
    static const dense::Kernels& chosen = dense::kernels_for(mxfp6::default_kernels().kernels->name);
    return chosen;
  }
  dense::Type type() const {
    return tensor->type == GGML_TYPE_F16 ? dense::Type::f16 : tensor->type == GGML_TYPE_BF16 ? dense::Type::bf16 : dense::Type::f32;
  }

  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

bool is_dense(const ggml_tensor* w) {
  const bool type = w->type == GGML_TYPE_F16 || w->type == GGML_TYPE_BF16 || w->type == GGML_TYPE_F32;
  return type && w->nb[0] == ggml_type_size(w->type);
}

}  // namespace

ggml::cpu::tensor_traits* dense_traits(const ggml_tensor* op) {
  static MatMul<DenseFormat> matmul;
  static MatMulExperts<DenseFormat> experts;
  if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return nullptr;
  if (!is_dense(op->src[0]) || !valid_activations(op->src[1])) return nullptr;
  if (op->op == GGML_OP_MUL_MAT) return &matmul;
  return &experts;
}

}  // namespace specdec
