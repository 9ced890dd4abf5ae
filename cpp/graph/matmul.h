// Matrix products with our kernels in ggml's graphs: distributes an operation's columns, matrices and rows over
// threads. One template per operation, parametrised by a format of weights that packs and multiplies activations:
//
//   explicit Format(const ggml_tensor* weights)   count matrices [rows, k]
//   std::int64_t k, rows; const ggml_tensor* tensor
//   const char* rejection(const ggml_tensor* x)    why weights and activations cannot be multiplied; null: they can
//   std::int64_t blocks()                          blocks per column, the unit of packing
//   std::int64_t chunk_rows(num_threads)           rows that a thread takes at a time; few, to balance unequal cores
//   std::int64_t expert_rows()                     rows multiplied at a time by the columns of one expert
//   std::size_t panel_bytes(n)                     bytes of n packed columns; linear in n
//   std::size_t scratch_bytes(n)                   bytes of scratch memory per thread
//   void pack(const float* x, n, column, block_begin, block_end, void* panel)
//   const std::uint8_t* matrix(i2, i3)             the first row of matrix (i2, i3)
//   void multiply(const std::uint8_t* first_row, const void* panel, n, row_begin, row_end, float* out, ldo,
//                 void* scratch)                   multiplies rows of a matrix; `out` begins with row_begin
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/index.h"
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "graph/blocks.h"
#include "graph/cached_experts.h"
#include "graph/op_failure.h"
#include "graph/streamed_matrix.h"
#include "traits.h"

namespace specdec {

inline const float* row_of(const ggml_tensor* t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return reinterpret_cast<const float*>(static_cast<const char*>(t->data) + idx(i1) * t->nb[1] + idx(i2) * t->nb[2] +
                                        idx(i3) * t->nb[3]);
}
inline float* row_of(ggml_tensor* t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return const_cast<float*>(row_of(static_cast<const ggml_tensor*>(t), i1, i2, i3));
}

// The parts of a matrix that a stream holds; null: it lies in memory as a whole.
inline const StreamedMatrix* streamed_of(const ggml_tensor* weights) {
  const BlockTiles* const tiles = tiles_of(weights);
  return tiles != nullptr ? tiles->streamed : nullptr;
}

inline const CachedExperts* experts_of(const ggml_tensor* weights) {
  const BlockTiles* const tiles = tiles_of(weights);
  return tiles != nullptr ? tiles->experts : nullptr;
}

inline bool is_product(const ggml_tensor* op) { return op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID; }

// The conditions that ggml's own kernels assert about activations.
inline bool valid_activations(const ggml_tensor* x) { return x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float); }

template <class Format>
bool rejected(const ggml_compute_params* params, ggml_tensor* op, const Format& w) {
  const char* why = w.rejection(op->src[1]);
  if (why != nullptr && params->ith == 0) fail_operation(op, w.tensor, why);
  return why != nullptr;
}

// Allocates consecutive pieces of the work buffer.
class Workspace {
 public:
  explicit Workspace(void* start) : at_(static_cast<char*>(start)) {}
  template <class T>
  T* take(std::size_t bytes) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += padded(bytes);
    return piece;
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  char* at_;
};

// Packs this thread's share of all blocks of a panel. column(c): the activations of column c.
template <class Format, class Column>
void pack_share(const Format& w, std::int64_t n, void* panel, int thread, int num_threads, Column column) {
  const std::int64_t total = n * w.blocks();
  std::int64_t at = total * thread / num_threads;
  const std::int64_t end = total * (thread + 1) / num_threads;
  while (at < end) {
    const std::int64_t c = at / w.blocks(), first = at % w.blocks();
    const std::int64_t last = std::min(w.blocks(), first + end - at);
    w.pack(column(c), n, c, first, last, panel);
    at += last - first;
  }
}

// Rows that cannot be read stay as they are: the stream has the reason, for the end of the pass.
template <class Format>
void multiply_parts(const Format& w, const StreamedMatrix& streamed, const void* panel, std::int64_t n,
                    std::int64_t row_begin, std::int64_t row_end, float* out, std::int64_t ldo, void* scratch) {
  streamed.each_part(row_begin, row_end, [&](const std::uint8_t* first_row, std::int64_t begin, std::int64_t end) {
    w.multiply(first_row, panel, n, begin, end, out, ldo, scratch);
    out += end - begin;
  });
}

// MUL_MAT: dst [rows, n, ...] = W [k, rows, ...] * x [k, n, ...]. If W is a single matrix, all of x is one product;
// otherwise every (i2, i3) is one. All columns are packed first, so that there is only one barrier.
template <class Format>
class MatMul final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Format w(op->src[0]);
    const std::int64_t n = columns(op);
    size = Workspace::padded(idx(products(op)) * w.panel_bytes(n)) +
           idx(num_threads) * Workspace::padded(w.scratch_bytes(n));
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Format w(op->src[0]);
    const ggml_tensor* x = op->src[1];
    if (rejected(params, op, w)) return true;
    const std::int64_t n = columns(op), count = products(op);
    const std::size_t panel_bytes = w.panel_bytes(n);
    Workspace work(params->wdata);
    char* panels = work.take<char>(idx(count) * panel_bytes);
    void* scratch = work.take<char>(0) + idx(params->ith) * Workspace::padded(w.scratch_bytes(n));
    const auto panel = [&](std::int64_t product) { return panels + idx(product) * panel_bytes; };

    const StreamedMatrix* const streamed = streamed_of(w.tensor);
    if (params->ith == 0) {
      ggml_threadpool_chunk_set(params->threadpool, params->nth);
      if (streamed != nullptr) streamed->begin();
    }
    for (std::int64_t product = 0; product < count; ++product) {
      pack_share(w, n, panel(product), params->ith, params->nth, [&](std::int64_t c) {
        const std::int64_t i1 = c % x->ne[1], outer = product + c / x->ne[1];
        return row_of(x, i1, outer % x->ne[2], outer / x->ne[2]);
      });
    }
    ggml_barrier(params->threadpool);

    const std::int64_t stride = static_cast<std::int64_t>(op->nb[1] / sizeof(float));
    const std::int64_t chunk_rows = w.chunk_rows(params->nth), chunks = (w.rows + chunk_rows - 1) / chunk_rows;
    for (std::int64_t at = params->ith; at < count * chunks; at = ggml_threadpool_chunk_add(params->threadpool, 1)) {
      const std::int64_t product = at / chunks, row = at % chunks * chunk_rows, i2 = product % x->ne[2],
                         i3 = product / x->ne[2];
      const std::int64_t w2 = i2 / (x->ne[2] / w.tensor->ne[2]), w3 = i3 / (x->ne[3] / w.tensor->ne[3]);
      float* const out = row_of(op, 0, i2, i3) + row;
      const std::int64_t end = std::min(w.rows, row + chunk_rows);
      if (streamed == nullptr) w.multiply(w.matrix(w2, w3), panel(product), n, row, end, out, stride, scratch);
      else multiply_parts(w, *streamed, panel(product), n, row, end, out, stride, scratch);
    }
    return true;
  }

 private:
  static bool is_one_matrix(const ggml_tensor* weights) { return ggml_nrows(weights) == weights->ne[1]; }
  static std::int64_t products(const ggml_tensor* op) { return is_one_matrix(op->src[0]) ? 1 : op->ne[2] * op->ne[3]; }
  static std::int64_t columns(const ggml_tensor* op) {
    return is_one_matrix(op->src[0]) ? ggml_nrows(op->src[1]) : op->src[1]->ne[1];
  }
};

// MUL_MAT_ID: dst [rows, used, tokens]: row (u, t) = W[ids[u, t]] [k, rows] * x [k, u or 0, t]; ids int32 [used,
// tokens].
template <class Format>
class MatMulExperts final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Format w(op->src[0]);
    const std::int64_t n = ggml_nelements(op->src[2]);
    size = Workspace::padded(w.panel_bytes(n)) + Workspace::padded(pair_bytes(n)) + Workspace::padded(start_bytes(w)) +
           idx(num_threads) * (Workspace::padded(w.scratch_bytes(n)) + Workspace::padded(output_bytes(w, n)));
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Format w(op->src[0]);
    const ggml_tensor* x = op->src[1];
    if (rejected(params, op, w)) return true;
    const std::int64_t n = ggml_nelements(op->src[2]), experts = w.tensor->ne[2];
    Workspace work(params->wdata);
    char* panels = work.take<char>(w.panel_bytes(n));
    Pair* pairs = work.take<Pair>(pair_bytes(n));
    std::int64_t* starts = work.take<std::int64_t>(start_bytes(w));
    const std::size_t scratch_bytes = Workspace::padded(w.scratch_bytes(n));
    char* own = work.take<char>(0) + idx(params->ith) * (scratch_bytes + Workspace::padded(output_bytes(w, n)));
    float* output = reinterpret_cast<float*>(own + scratch_bytes);

    const CachedExperts* const cached = experts_of(w.tensor);
    if (params->ith == 0) {
      group_by_expert(op->src[2], experts, pairs, starts);
      if (cached != nullptr) begin(*cached, w, x, starts, params->nth);
    }
    ggml_barrier(params->threadpool);
    for (std::int64_t e = 0; e < experts; ++e) {  // each expert's columns form their own panel
      const Pair* chosen = pairs + starts[e];
      pack_share(w, starts[e + 1] - starts[e], panels + w.panel_bytes(starts[e]), params->ith, params->nth,
                 [&](std::int64_t c) { return row_of(x, chosen[c].used % x->ne[1], chosen[c].token, 0); });
    }
    ggml_barrier(params->threadpool);
    const std::int64_t step = w.expert_rows();
    const auto [begin, end] = share(w, params->ith, params->nth);
    for (std::int64_t e = 0; e < experts && begin < end; ++e) {
      const std::int64_t count = starts[e + 1] - starts[e];
      if (count == 0) continue;
      const std::uint8_t* const matrix = cached != nullptr ? cached->take(e) : w.matrix(e, 0);
      if (matrix == nullptr) continue;  // the cache has the reason, for the end of the pass
      for (std::int64_t row = begin; row < end; row += step) {
        const std::int64_t last = std::min(end, row + step), rows = last - row;
        w.multiply(matrix, panels + w.panel_bytes(starts[e]), count, row, last, output, rows, own);
        for (std::int64_t c = 0; c < count; ++c) {
          const Pair& pair = pairs[starts[e] + c];
          std::memcpy(row_of(op, pair.used, pair.token, 0) + row, output + c * rows, idx(rows) * sizeof(float));
        }
      }
      if (cached != nullptr) cached->give_back(e);
    }
    return true;
  }

 private:
  struct Pair {
    std::int32_t used, token;
  };
  struct Rows {
    std::int64_t begin, end;
  };
  // A thread's rows of every expert.
  static Rows share(const Format& w, std::int64_t thread, std::int64_t num_threads) {
    const std::int64_t step = w.expert_rows(), steps = (w.rows + step - 1) / step;
    return {steps * thread / num_threads * step, std::min(w.rows, steps * (thread + 1) / num_threads * step)};
  }
  // The activations are the state before the layer's experts if all experts of a token read the same.
  static void begin(const CachedExperts& cached, const Format& w, const ggml_tensor* x, const std::int64_t* starts,
                    int num_threads) {
    const auto is_chosen = [&](std::int64_t e) { return starts[e + 1] > starts[e]; };
    const auto state = [&](std::int64_t token) { return row_of(x, 0, token, 0); };
    cached.begin(w.tensor->ne[2], takers(w, num_threads), is_chosen, x->ne[1] == 1 ? x->ne[2] : 0, state);
  }
  static int takers(const Format& w, int num_threads) {
    int count = 0;
    for (int thread = 0; thread < num_threads; ++thread) {
      const Rows rows = share(w, thread, num_threads);
      count += rows.begin < rows.end ? 1 : 0;
    }
    return count;
  }
  static std::size_t pair_bytes(std::int64_t n) { return idx(n) * sizeof(Pair); }
  static std::size_t start_bytes(const Format& w) { return idx(w.tensor->ne[2] + 1) * sizeof(std::int64_t); }
  static std::size_t output_bytes(const Format& w, std::int64_t n) { return idx(n * w.expert_rows()) * sizeof(float); }

  // Counting sort of all (used, token) pairs by the expert they chose: expert e has pairs[starts[e] .. starts[e + 1]).
  static void group_by_expert(const ggml_tensor* ids, std::int64_t experts, Pair* pairs, std::int64_t* starts) {
    const auto expert = [&](std::int64_t used, std::int64_t token) {
      const char* at = static_cast<const char*>(ids->data) + idx(token) * ids->nb[1] + idx(used) * ids->nb[0];
      return *reinterpret_cast<const std::int32_t*>(at);
    };
    const auto each_pair = [&](auto visit) {
      for (std::int64_t token = 0; token < ids->ne[1]; ++token) {
        for (std::int64_t used = 0; used < ids->ne[0]; ++used) visit(used, token, expert(used, token));
      }
    };
    std::fill_n(starts, experts + 1, 0);
    each_pair([&](std::int64_t, std::int64_t, std::int32_t e) { ++starts[e + 1]; });
    for (std::int64_t e = 0; e < experts; ++e) starts[e + 1] += starts[e];
    each_pair([&](std::int64_t used, std::int64_t token, std::int32_t e) {
      pairs[starts[e]++] = {static_cast<std::int32_t>(used), static_cast<std::int32_t>(token)};
    });
    for (std::int64_t e = experts; e > 0; --e)
      starts[e] = starts[e - 1];  // each start had advanced to the next expert's
    starts[0] = 0;
  }
};

}  // namespace specdec
