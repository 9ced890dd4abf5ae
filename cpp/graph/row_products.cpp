#include "graph/row_products.h"

#include "graph/blocks.h"
#include "graph/float_format.h"

namespace specdec {

RowProducts::RowProducts(const ggml_tensor* weights, const float* x)
    : weights_(weights), panel_(floats::panel_floats(1, weights->ne[0])) {
  const FloatFormat format(weights);
  format.pack(x, 1, 0, 0, format.blocks(), panel_.data());
}

void RowProducts::multiply(std::int64_t first, std::int64_t count, float* out) {
  const FloatFormat format(weights_);
  if (is_float(weights_))
    return format.multiply(format.matrix(0, 0), panel_.data(), 1, first, first + count, out, 0, nullptr);
  decoded_.resize(idx(count * format.k));
  decode_rows(weights_, first, count, decoded_.data());
  const floats::Matrix rows{floats::Type::f32, decoded_.data(), format.k * std::int64_t{sizeof(float)}, format.k};
  FloatFormat::kernels().matmul(rows, panel_.data(), 1, 0, count, out, 0);
}

}  // namespace specdec
