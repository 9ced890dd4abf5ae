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

bool row_fits(const ggml_tensor* t) {
  const bool type = t->type == GGML_TYPE_F16 || (t->type == GGML_TYPE_Q8_0 && t->ne[0] % 32 == 0);
  return type && t->nb[0] == ggml_type_size(t->type) && t->ne[0] % attention::lanes == 0 && t->ne[0] <= attention::max_head_size;
}

bool is_supported(const ggml_tensor* op) {
  const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
  const bool plain = sinks == nullptr && parameter(op, 1) == 0.0f && parameter(op, 2) == 0.0f;
  const bool query = q->type == GGML_TYPE_F32 && q->nb[0] == sizeof(float);
  const bool masked = mask == nullptr || (mask->type == GGML_TYPE_F16 && mask->ne[2] == 1);
  return plain && query && masked && row_fits(k) && row_fits(v) && k->ne[1] % attention::block_cells == 0 && k->ne[2] == v->ne[2] &&
         q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3];
}

attention::CacheType cache_type(const ggml_tensor* t) {
  return t->type == GGML_TYPE_Q8_0 ? attention::CacheType::q8_0 : attention::CacheType::f16;
}

// How an operation is divided among threads. Results do not depend on it.
struct Division {
  Division(const ggml_tensor* op, int num_threads) {
    const ggml_tensor *q = op->src[0], *k = op->src[1];
    groups = k->ne[2] * k->ne[3];
    rows = q->ne[1] * (q->ne[2] / k->ne[2]);
    chunks = (k->ne[1] + attention::chunk_cells - 1) / attention::chunk_cells;
    state = attention::state_floats(static_cast<int>(op->src[2]->ne[0]));
    by_chunks = groups * chunks * rows * state <= max_chunk_states;
    const std::int64_t items = by_chunks ? groups * chunks : groups;
    const std::int64_t wanted = (num_threads + items - 1) / items;  // parts, so that every thread has one
    parts = std::max((rows + attention::max_rows - 1) / attention::max_rows, std::min(wanted, rows));
    scratch = aligned(attention::scratch_floats(static_cast<int>(k->ne[0]), static_cast<int>(op->src[2]->ne[0])));
    states = by_chunks ? groups * chunks * rows * state : 2 * num_threads * attention::max_rows * state;
  }

  static std::int64_t aligned(std::size_t floats) { return static_cast<std::int64_t>((floats + 15) / 16 * 16); }

  static constexpr std::int64_t max_chunk_states = 4 << 20;  // floats

  std::int64_t groups;  // key-value heads of all streams
  std::int64_t rows;    // that read one of them
  std::int64_t parts;   // that these are cut into
  std::int64_t chunks;  // of the cache
  bool by_chunks;       // chunks are read by different threads and merged when all are done
  std::int64_t state;   // floats per row
  std::int64_t scratch, states;  // floats of scratch memory per thread, of all states
};

// q f32 [size, queries, heads, streams]; k, v f16 or q8_0 [size, cells, kv heads, streams]; mask f16 [cells, queries, 1, streams
// or 1]; dst f32 [value size, heads, queries, streams].
class Attention final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Division d(op, num_threads);
    size = static_cast<std::size_t>(d.states + num_threads * d.scratch) * sizeof(float) + 64;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    static const attention::Kernels& kernels = attention::kernels_for(mxfp6::default_kernels().kernels->name);
    const Division d(op, params->nth);
    const auto misalignment = reinterpret_cast<std::uintptr_t>(params->wdata) % 64;
    float* states = reinterpret_cast<float*>(static_cast<char*>(params->wdata) + (64 - misalignment) % 64);
    float* scratch = states + d.states + params->ith * d.scratch;
    if (d.by_chunks) {
      read_by_chunks(kernels, d, params, op, states, scratch);
    } else {
      read_by_rows(kernels, d, params, op, states + 2 * params->ith * attention::max_rows * d.state, scratch);
    }
    return true;
  }

 private:
  // Threads read different parts of the cache; the key-value heads of a chunk lie side by side, so a thread reads them together.
  static void read_by_chunks(const attention::Kernels& kernels, const Division& d, const ggml_compute_params* params, ggml_tensor* op, float* states,
                             float* scratch) {
    const std::int64_t items = d.chunks * d.groups * d.parts;
    for (std::int64_t item = items * params->ith / params->nth; item < items * (params->ith + 1) / params->nth; ++item) {
      const std::int64_t part = item % d.parts, group = item / d.parts % d.groups, chunk = item / d.parts / d.groups;
      const std::int64_t first = d.rows * part / d.parts;
      float* out = states + ((group * d.chunks + chunk) * d.rows + first) * d.state;
      kernels.read_chunk(problem_of(op, group), first, d.rows * (part + 1) / d.parts, chunk, out, scratch);
    }
    ggml_barrier(params->threadpool);
    const std::int64_t total = d.groups * d.rows, end = total * (params->ith + 1) / params->nth;
    for (std::int64_t at = total * params->ith / params->nth; at < end;) {
      const std::int64_t group = at / d.rows, first = at % d.rows, count = std::min(d.rows - first, end - at);
      float* merged = states + (group * d.chunks * d.rows + first) * d.state;
      for (std::int64_t chunk = 1; chunk < d.chunks; ++chunk) kernels.merge(value_size(op), count, merged, merged + chunk * d.rows * d.state);
      kernels.finish(problem_of(op, group), first, first + count, merged);
      at += count;
    }
  }

  // Every thread has rows of its own.
  static void read_by_rows(const attention::Kernels& kernels, const Division& d, const ggml_compute_params* params, ggml_tensor* op, float* states,
                           float* scratch) {
    float* later = states + attention::max_rows * d.state;
    for (std::int64_t item = params->ith; item < d.groups * d.parts; item += params->nth) {
      const std::int64_t part = item % d.parts, group = item / d.parts;
      const std::int64_t first = d.rows * part / d.parts, end = d.rows * (part + 1) / d.parts;
      const Problem problem = problem_of(op, group);
      kernels.read_chunk(problem, first, end, 0, states, scratch);
      for (std::int64_t chunk = 1; chunk < d.chunks; ++chunk) {
        kernels.read_chunk(problem, first, end, chunk, later, scratch);
        kernels.merge(value_size(op), end - first, states, later);
      }
      kernels.finish(problem, first, end, states);
    }
  }

  static int value_size(const ggml_tensor* op) { return static_cast<int>(op->src[2]->ne[0]); }

  static Problem problem_of(ggml_tensor* op, std::int64_t group_index) {
    const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3];
    const std::int64_t kv_head = group_index % k->ne[2], stream = group_index / k->ne[2];
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
    p.key_type = cache_type(k);
    p.value_type = cache_type(v);
    p.head_size = static_cast<int>(k->ne[0]);
    p.value_size = value_size(op);
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
