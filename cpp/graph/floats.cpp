#include "graph/floats.h"

#include "graph/best_rows.h"
#include "graph/float_format.h"

namespace specdec {

ggml::cpu::tensor_traits* float_traits(const ggml_tensor* op) {
  if (!is_product(op) || !is_float(op->src[0]) || !valid_activations(op->src[1])) return nullptr;
  return product_traits<FloatFormat>(op);
}

}  // namespace specdec
