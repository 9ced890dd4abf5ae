#include "llama/ggml_mxfp6.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ggml-backend-impl.h"
#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "mxfp6/codec.h"
#include "mxfp6/dispatch.h"
#include "mxfp6/matmul.h"
#include "speculative/error.h"
#include "traits.h"

namespace specdec {
namespace {

using mxfp6::Kernels;
using mxfp6::Type;

bool is_mxfp6(const ggml_tensor* t) { return t->type == GGML_TYPE_MXFP6_E2M3 || t->type == GGML_TYPE_MXFP6_E3M2; }

// Threads take this many bands of 16 rows at a time, so that a slower core holds nobody up. A multiple of scratch_bands.
constexpr std::int64_t chunk_bands = 2 * mxfp6::scratch_bands;

// The weights of an operation: `count` matrices [rows, k] in tiles, one after another.
struct Weights {
  explicit Weights(const ggml_tensor* t)
      : type(t->type == GGML_TYPE_MXFP6_E2M3 ? Type::e2m3 : Type::e3m2), k(t->ne[0]), rows(t->ne[1]), tensor(t) {}

  // Rows of a tiled matrix are not contiguous: only whole tensors and views of whole bands mean anything.
  bool valid() const {
    const std::size_t row_bytes = ggml_row_size(tensor->type, k);
    return k % mxfp6::block_size == 0 && rows % mxfp6::tile_rows == 0 && tensor->nb[1] == row_bytes &&
           tensor->view_offs % (row_bytes * mxfp6::tile_rows) == 0;
  }
  const std::uint8_t* matrix(std::int64_t i2, std::int64_t i3 = 0) const {
    return static_cast<const std::uint8_t*>(tensor->data) + static_cast<std::size_t>(i2) * tensor->nb[2] +
           static_cast<std::size_t>(i3) * tensor->nb[3];
  }
  std::int64_t bands() const { return rows / mxfp6::tile_rows; }
  std::int64_t blocks() const { return k / mxfp6::block_size; }

  Type type;
  std::int64_t k, rows;
  const ggml_tensor* tensor;
};

const float* row_of(const ggml_tensor* t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return reinterpret_cast<const float*>(static_cast<const char*>(t->data) + static_cast<std::size_t>(i1) * t->nb[1] +
                                        static_cast<std::size_t>(i2) * t->nb[2] + static_cast<std::size_t>(i3) * t->nb[3]);
}
float* row_of(ggml_tensor* t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return const_cast<float*>(row_of(static_cast<const ggml_tensor*>(t), i1, i2, i3));
}

// Hands out consecutive pieces of the work buffer.
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

// Rounds this thread's share of all blocks of a panel. column(c): the activations of column c.
template <class Column>
void quantize_share(const Kernels& kernels, const Weights& w, std::int64_t n, void* panel, int thread, int num_threads, Column column) {
  const std::int64_t total = n * w.blocks();
  std::int64_t at = total * thread / num_threads;
  const std::int64_t end = total * (thread + 1) / num_threads;
  while (at < end) {
    const std::int64_t c = at / w.blocks(), first = at % w.blocks();
    const std::int64_t last = std::min(w.blocks(), first + end - at);
    kernels.quantize(w.type, column(c), n, w.k, c, first, last, panel);
    at += last - first;
  }
}

// What ggml's own kernels assert of activations.
bool valid_activations(const ggml_tensor* x) { return x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float); }

// ggml cannot report an error from here: the output becomes NaN, which the sampling refuses with a clear text.
void poison(ggml_tensor* out, const ggml_tensor* weights) {
  GGML_LOG_ERROR("%s: this use of an MXFP6 tensor is not supported (rows viewed within a band of 16, or transposed activations)\n",
                 weights->name);
  std::fill_n(static_cast<float*>(out->data), ggml_nelements(out), std::numeric_limits<float>::quiet_NaN());
}

// dst [rows, n, ...] = W [k, rows, ...] * x [k, n, ...]; a single matrix serves all of x.
class MatMul final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Weights w(op->src[0]);
    const std::int64_t n = columns(op);
    size = Workspace::padded(mxfp6::panel_bytes(n, w.k)) +
           static_cast<std::size_t>(num_threads) * Workspace::padded(mxfp6::scratch_bytes(w.type, n, w.k)) + 64;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Weights w(op->src[0]);
    if (!w.valid() || !valid_activations(op->src[1])) {
      if (params->ith == 0) poison(op, w.tensor);
      return true;
    }
    const bool one_matrix = ggml_nrows(w.tensor) == w.rows;
    if (one_matrix) {
      multiply(params, op, w, 0, 0);
      return true;
    }
    for (std::int64_t i3 = 0; i3 < op->ne[3]; ++i3) {
      for (std::int64_t i2 = 0; i2 < op->ne[2]; ++i2) {
        if (i2 + i3 > 0) ggml_barrier(params->threadpool);  // the panel is reused
        multiply(params, op, w, i2, i3);
      }
    }
    return true;
  }

 private:
  // Columns that one multiplication takes: all of x where the weights are one matrix.
  static std::int64_t columns(const ggml_tensor* op) {
    return ggml_nrows(op->src[0]) == op->src[0]->ne[1] ? ggml_nrows(op->src[1]) : op->src[1]->ne[1];
  }

  static void multiply(ggml_compute_params* params, ggml_tensor* op, const Weights& w, std::int64_t i2, std::int64_t i3) {
    const Kernels& kernels = *mxfp6::default_kernels().kernels;
    const ggml_tensor* x = op->src[1];
    const std::int64_t n = columns(op);
    const std::size_t scratch_bytes = mxfp6::scratch_bytes(w.type, n, w.k);
    Workspace work(params->wdata);
    void* panel = work.take<char>(mxfp6::panel_bytes(n, w.k));
    void* scratch = work.take<char>(0) + static_cast<std::size_t>(params->ith) * Workspace::padded(scratch_bytes);

    const auto column = [&](std::int64_t c) {
      const std::int64_t i1 = c % x->ne[1], outer = c / x->ne[1];
      return row_of(x, i1, i2 + outer % x->ne[2], i3 + outer / x->ne[2]);
    };
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    quantize_share(kernels, w, n, panel, params->ith, params->nth, column);
    ggml_barrier(params->threadpool);

    const std::uint8_t* tiles = w.matrix(i2 / (x->ne[2] / w.tensor->ne[2]), i3 / (x->ne[3] / w.tensor->ne[3]));
    float* out = row_of(op, 0, i2, i3);
    const std::int64_t stride = static_cast<std::int64_t>(op->nb[1] / sizeof(float));
    const std::int64_t chunks = (w.bands() + chunk_bands - 1) / chunk_bands;
    for (std::int64_t c = params->ith; c < chunks; c = ggml_threadpool_chunk_add(params->threadpool, 1)) {
      const std::int64_t first = c * chunk_bands, last = std::min(w.bands(), first + chunk_bands);
      kernels.matmul(w.type, tiles, w.k, panel, n, first, last, out, stride, scratch);
    }
  }
};

// dst [rows, used, tokens]: row (u, t) = W[ids[u, t]] [k, rows] * x [k, u or 0, t]; ids int32 [used, tokens].
class MatMulExperts final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Weights w(op->src[0]);
    const std::int64_t n = ggml_nelements(op->src[2]);
    size = Workspace::padded(mxfp6::panel_bytes(n, w.k)) + Workspace::padded(pair_bytes(n)) + Workspace::padded(start_bytes(w)) +
           static_cast<std::size_t>(num_threads) *
               (Workspace::padded(mxfp6::scratch_bytes(w.type, n, w.k)) + Workspace::padded(output_bytes(n))) + 64;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Kernels& kernels = *mxfp6::default_kernels().kernels;
    const Weights w(op->src[0]);
    if (!w.valid() || !valid_activations(op->src[1])) {
      if (params->ith == 0) poison(op, w.tensor);
      return true;
    }
    const ggml_tensor* x = op->src[1];
    const std::int64_t n = ggml_nelements(op->src[2]), experts = w.tensor->ne[2];
    Workspace work(params->wdata);
    char* panels = work.take<char>(mxfp6::panel_bytes(n, w.k));
    Pair* pairs = work.take<Pair>(pair_bytes(n));
    std::int64_t* starts = work.take<std::int64_t>(start_bytes(w));
    const std::size_t scratch_bytes = Workspace::padded(mxfp6::scratch_bytes(w.type, n, w.k));
    char* own = work.take<char>(0) + static_cast<std::size_t>(params->ith) * (scratch_bytes + Workspace::padded(output_bytes(n)));
    float* output = reinterpret_cast<float*>(own + scratch_bytes);

    if (params->ith == 0) group_by_expert(op->src[2], experts, pairs, starts);
    ggml_barrier(params->threadpool);
    for (std::int64_t e = 0; e < experts; ++e) {  // each expert's columns are a panel of their own
      const Pair* chosen = pairs + starts[e];
      quantize_share(kernels, w, starts[e + 1] - starts[e], panels + mxfp6::panel_bytes(starts[e], w.k), params->ith, params->nth,
                     [&](std::int64_t c) { return row_of(x, chosen[c].used % x->ne[1], chosen[c].token, 0); });
    }
    ggml_barrier(params->threadpool);
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t count = starts[e + 1] - starts[e];
      const std::int64_t begin = w.bands() * params->ith / params->nth, end = w.bands() * (params->ith + 1) / params->nth;
      for (std::int64_t band = begin; band < end && count > 0; band += mxfp6::scratch_bands) {
        const std::int64_t last = std::min(end, band + mxfp6::scratch_bands);
        const std::int64_t rows = (last - band) * mxfp6::tile_rows;
        // The kernel writes row r of column c to out[c * rows + r]: its place is counted from the matrix's first row.
        kernels.matmul(w.type, w.matrix(e), w.k, panels + mxfp6::panel_bytes(starts[e], w.k), count, band, last,
                       output - band * mxfp6::tile_rows, rows, own);
        for (std::int64_t c = 0; c < count; ++c) {
          const Pair& pair = pairs[starts[e] + c];
          std::memcpy(row_of(op, pair.used, pair.token, 0) + band * mxfp6::tile_rows, output + c * rows,
                      static_cast<std::size_t>(rows) * sizeof(float));
        }
      }
    }
    return true;
  }

 private:
  struct Pair {
    std::int32_t used, token;
  };
  static std::size_t pair_bytes(std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(Pair); }
  static std::size_t start_bytes(const Weights& w) { return static_cast<std::size_t>(w.tensor->ne[2] + 1) * sizeof(std::int64_t); }
  static std::size_t output_bytes(std::int64_t n) {
    return static_cast<std::size_t>(n * mxfp6::scratch_bands * mxfp6::tile_rows) * sizeof(float);
  }

  // Counting sort of all (used, token) pairs by the expert they chose: expert e has pairs[starts[e] .. starts[e + 1]).
  static void group_by_expert(const ggml_tensor* ids, std::int64_t experts, Pair* pairs, std::int64_t* starts) {
    const auto expert = [&](std::int64_t used, std::int64_t token) {
      const char* at = static_cast<const char*>(ids->data) + static_cast<std::size_t>(token) * ids->nb[1] + static_cast<std::size_t>(used) * ids->nb[0];
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
    for (std::int64_t e = experts; e > 0; --e) starts[e] = starts[e - 1];  // each start had become the next one's
    starts[0] = 0;
  }
};

// dst [k, n, ...] = rows ids[n, ...] of W, decoded to F32.
class GetRows final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int, const ggml_tensor*, size_t& size) override {
    size = 0;
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Weights w(op->src[0]);
    if (!w.valid()) {
      if (params->ith == 0) poison(op, w.tensor);
      return true;
    }
    const ggml_tensor* ids = op->src[1];
    for (std::int64_t i = params->ith; i < ggml_nelements(ids); i += params->nth) {
      const std::int64_t i0 = i % ids->ne[0], i1 = i / ids->ne[0] % ids->ne[1], i2 = i / (ids->ne[0] * ids->ne[1]);
      const char* at = static_cast<const char*>(ids->data) + static_cast<std::size_t>(i0) * ids->nb[0] + static_cast<std::size_t>(i1) * ids->nb[1] +
                       static_cast<std::size_t>(i2) * ids->nb[2];
      mxfp6::dequantize_row(w.type, w.matrix(i1, i2), w.k, *reinterpret_cast<const std::int32_t*>(at), row_of(op, i0, i1, i2));
    }
    return true;
  }
};

}  // namespace

ggml::cpu::tensor_traits* mxfp6_traits(const ggml_tensor* op) {
  static MatMul matmul;
  static MatMulExperts experts;
  static GetRows get_rows;
  if (op->src[0] == nullptr || !is_mxfp6(op->src[0])) return nullptr;
  switch (op->op) {
    case GGML_OP_MUL_MAT: return &matmul;
    case GGML_OP_MUL_MAT_ID: return &experts;
    case GGML_OP_GET_ROWS: return &get_rows;
    default: return nullptr;
  }
}

void check_mxfp6_kernels() {
  const mxfp6::Selection& selection = mxfp6::default_kernels();
  if (selection.kernels == nullptr) throw Error(selection.error);
}

}  // namespace specdec
