#include "graph/scaled_rows.h"

#include <cstdint>

#include "ggml-cpu-impl.h"
#include "graph/matmul.h"
#include "traits.h"

namespace specdec {
namespace {

class ScaledRows final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int, const ggml_tensor*, size_t& size) override {
    size = 0;
    return true;
  }
  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const ggml_tensor *x = op->src[0], *scales = op->src[1];
    const std::int64_t count = ggml_nrows(op), size = op->ne[0];
    const std::int64_t end = count * (params->ith + 1) / params->nth;
    for (std::int64_t at = count * params->ith / params->nth; at < end; ++at) {
      const std::int64_t i1 = at % op->ne[1], i2 = at / op->ne[1] % op->ne[2], i3 = at / op->ne[1] / op->ne[2];
      const float* from = row_of(x, i1, i2, i3);
      const float scale = *row_of(scales, i1 % scales->ne[1], i2 % scales->ne[2], i3 % scales->ne[3]);  // repeated
      float* to = row_of(op, i1, i2, i3);
      for (std::int64_t i = 0; i < size; ++i) to[i] = from[i] * scale;
    }
    return true;
  }
};

}  // namespace

ggml::cpu::tensor_traits* scaled_rows_traits(const ggml_tensor* op) {
  static ScaledRows traits;
  if (op->op != GGML_OP_MUL) return nullptr;
  const ggml_tensor *x = op->src[0], *scales = op->src[1];
  const bool are_floats = op->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && scales->type == GGML_TYPE_F32;
  const bool are_rows = op->nb[0] == sizeof(float) && x->nb[0] == sizeof(float) && op->ne[0] > 1;
  return are_floats && are_rows && scales->ne[0] == 1 ? &traits : nullptr;
}

}  // namespace specdec
