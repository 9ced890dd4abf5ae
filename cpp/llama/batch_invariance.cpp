#include "llama/batch_invariance.h"

#include "ggml.h"
#include "speculative/sequence.h"

namespace specdec {

bool depends_on_batch(const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_FLASH_ATTN_EXT:
      return true;
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
      return ggml_is_quantized(op->src[0]->type);
    default:
      return false;
  }
}

bool wants_reference(const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_MUL_MAT:
      return op->src[1]->ne[1] <= max_draft_tokens + 1;
    case GGML_OP_MUL_MAT_ID:
      return op->src[1]->ne[2] <= max_draft_tokens + 1;  // src[1]: [columns, experts used, tokens]
    default:
      return true;
  }
}

}  // namespace specdec
