#include "llama/ggml_attention.h"

#include <algorithm>
#include <cstdint>

#include "attention/attention.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "mxfp6/dispatch.h"
#include "traits.h"

namespace specdec {
namespace {

using attention::Problem;

float parameter(const ggml_tensor* op, int index) { return ggml_get_op_params_f32(op, index); }  // scale, max bias, soft cap

bool head_size_fits(std::int64_t size) { return size % attention::lanes == 0 && size <= attention::max_head_size; }

bool is_supported(const ggml_tensor* op) {
  const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
  const bool plain = sinks == nullptr && parameter(op, 1) == 0.0f && parameter(op, 2) == 0.0f;
  const bool types = q->type == GGML_TYPE_F32 && k->type == GGML_TYPE_F16 && v->type == GGML_TYPE_F16;
  const bool rows = q->nb[0] == sizeof(float) && k->nb[0] == sizeof(ggml_fp16_t) && v->nb[0] == sizeof(ggml_fp16_t);
  const bool masked = mask == nullptr || (mask->type == GGML_TYPE_F16 && mask->ne[2] == 1);
  return plain && types && rows && masked && head_size_fits(k->ne[0]) && head_size_fits(v->ne[0]) && k->ne[1] % attention::block_cells == 0 &&
         k->ne[2] == v->ne[2] && q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3];
}

// q f32 [size, queries, heads, streams]; k, v f16 [size, cells, kv heads, streams]; mask f16 [cells, queries, 1, streams or 1];
// dst f32 [value size, heads, queries, streams].
class Attention final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    size = static_cast<std::size_t>(num_threads) * scratch_bytes(op);
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    static const attention::Attend attend = attention::attend_for(mxfp6::default_kernels().kernels->name);
    const ggml_tensor *q = op->src[0], *k = op->src[1];
    float* scratch = reinterpret_cast<float*>(static_cast<char*>(params->wdata) + static_cast<std::size_t>(params->ith) * scratch_bytes(op));
    const std::int64_t groups = k->ne[2] * k->ne[3];                    // key-value heads of all streams
    const std::int64_t rows = q->ne[1] * (q->ne[2] / k->ne[2]);         // that read one of them
    const std::int64_t wanted = (params->nth + groups - 1) / groups;    // parts, so that every thread has one
    const std::int64_t parts = std::max((rows + attention::max_rows - 1) / attention::max_rows, std::min(wanted, rows));
    for (std::int64_t item = params->ith; item < groups * parts; item += params->nth) {
      const std::int64_t group = item / parts, part = item % parts;
      const Problem problem = problem_of(op, group % k->ne[2], group / k->ne[2]);
      attend(problem, rows * part / parts, rows * (part + 1) / parts, scratch);
    }
    return true;
  }

 private:
  static std::size_t scratch_bytes(const ggml_tensor* op) {
    const std::size_t floats = attention::scratch_floats(static_cast<int>(op->src[1]->ne[0]), static_cast<int>(op->src[2]->ne[0]));
    return (floats * sizeof(float) + 63) / 64 * 64;
  }

  static Problem problem_of(ggml_tensor* op, std::int64_t kv_head, std::int64_t stream) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    const auto stride = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes); };
    const auto start = [&](const ggml_tensor* t, std::int64_t i2, std::int64_t i3) {
      return static_cast<const char*>(t->data) + i2 * stride(t->nb[2]) + i3 * stride(t->nb[3]);
    };
    Problem p{};
    p.group = static_cast<int>(q->ne[2] / k->ne[2]);
    p.queries = start(q, kv_head * p.group, stream);
    p.query_stride = stride(q->nb[1]);
    p.query_head_stride = stride(q->nb[2]);
    p.keys = start(k, kv_head, stream);
    p.key_stride = stride(k->nb[1]);
    p.values = start(v, kv_head, stream);
    p.value_stride = stride(v->nb[1]);
    if (mask != nullptr) {
      p.mask = start(mask, 0, stream % mask->ne[3]);
      p.mask_stride = stride(mask->nb[1]);
    }
    p.out = static_cast<char*>(op->data) + kv_head * p.group * stride(op->nb[1]) + stream * stride(op->nb[3]);
    p.out_stride = stride(op->nb[2]);
    p.out_head_stride = stride(op->nb[1]);
    p.num_cells = k->ne[1];
    p.head_size = static_cast<int>(k->ne[0]);
    p.value_size = static_cast<int>(v->ne[0]);
    p.scale = parameter(op, 0);
    return p;
  }
};

}  // namespace

ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op) {
  static Attention attention;
  return op->op == GGML_OP_FLASH_ATTN_EXT && is_supported(op) ? &attention : nullptr;
}

}  // namespace specdec
