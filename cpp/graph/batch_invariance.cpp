#include "graph/batch_invariance.h"

#include "ggml-impl.h"
#include "ggml.h"

namespace specdec {

bool depends_on_batch(const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_FLASH_ATTN_EXT:
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
      return true;
    default:
      return false;
  }
}

bool is_hadamard(const ggml_tensor* op) {
  return op->op == GGML_OP_MUL_MAT && ggml_get_op_params_i32(op, 1) == GGML_HINT_SRC0_IS_HADAMARD;
}

bool wants_reference(const ggml_tensor* op) { return !is_hadamard(op); }

}  // namespace specdec
