// Computes a draft's logits in two passes. The signs of all rows (1.1 bits per weight) give rough logits; the rows with
// the largest ones are then multiplied again with their full weights. The other logits stay rough: an unlikely token as
// a draft costs a rejection at worst, and verification is exact for any proposal. A column's logits depend neither on
// other columns nor on threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#include "base/index.h"
#include "graph/block_format.h"

namespace specdec {

// How many tiles of 16 rows are multiplied again: those with the largest rough logits, and any that tie with the last
// of them. On a real 0.5B draft the likeliest token was among the first 256 rows by rough logits in all of 1370 places,
// and among the first 64 in 99 %.
constexpr std::int64_t num_best_tiles = 256;

// Column c of activations or of a product.
template <class Tensor>
auto column_of(Tensor* t, std::int64_t c) {
  return row_of(t, c % t->ne[1], c / t->ne[1] % t->ne[2], c / t->ne[1] / t->ne[2]);
}

// MUL_MAT of one matrix whose BlockTiles have signs. Format (matmul.h): of the rows that are multiplied again.
template <class Format>
class BestRows final : public ggml::cpu::tensor_traits {
 public:
  bool work_size(int num_threads, const ggml_tensor* op, size_t& size) override {
    const Shape shape(op);
    size = Workspace::padded(shape.signs.panel_bytes(shape.n)) + Workspace::padded(shape.maxima_bytes()) +
           idx(num_threads) * Own::bytes(shape, num_threads);
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const Shape shape(op);
    if (rejected(params, op, shape.weights)) return true;
    Workspace work(params->wdata);
    char* panel = work.take<char>(shape.signs.panel_bytes(shape.n));
    float* maxima = work.take<float>(shape.maxima_bytes());
    Own own(work.take<char>(0) + idx(params->ith) * Own::bytes(shape, params->nth), shape, params->nth);

    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    const auto column = [&](std::int64_t c) { return column_of(static_cast<const ggml_tensor*>(op->src[1]), c); };
    pack_share(shape.signs, shape.n, panel, params->ith, params->nth, column);
    ggml_barrier(params->threadpool);
    const std::int64_t step = shape.signs.chunk_rows(params->nth), chunks = (shape.signs.rows + step - 1) / step;
    for (std::int64_t at = params->ith; at < chunks; at = ggml_threadpool_chunk_add(params->threadpool, 1)) {
      const std::int64_t row = at * step, last = std::min(shape.signs.rows, row + step);
      shape.signs.multiply(shape.signs.matrix(0, 0), panel, shape.n, row, last, own.logits, step, own.scratch);
      for (std::int64_t c = 0; c < shape.n; ++c) {
        const float* logits = own.logits + c * step;
        std::memcpy(column_of(op, c) + row, logits, idx(last - row) * sizeof(float));
        write_maxima(logits, last - row, maxima + c * shape.tiles + row / blocks::tile_rows);
      }
    }
    ggml_barrier(params->threadpool);
    for (std::int64_t c = 0; c < shape.n; ++c) {
      const float* of_column = maxima + c * shape.tiles;
      const float least = least_of_best(of_column, shape.tiles, own.sorted);
      shape.weights.pack(column(c), 1, 0, 0, shape.weights.blocks(), own.panel);
      std::int64_t turn = 0;
      for (std::int64_t tile = 0; tile < shape.tiles; ++tile) {
        if (of_column[tile] < least || turn++ % params->nth != params->ith) continue;
        const std::int64_t row = tile * blocks::tile_rows, last = std::min(shape.weights.rows, row + blocks::tile_rows);
        shape.weights.multiply(shape.weights.matrix(0, 0), own.panel, 1, row, last, column_of(op, c) + row, 0,
                               own.scratch);
      }
    }
    return true;
  }

 private:
  struct Shape {
    explicit Shape(const ggml_tensor* op)
        : signs(op->src[0], GGML_TYPE_Q1_0, tiles_of(op->src[0])->signs),
          weights(op->src[0]),
          n(ggml_nrows(op->src[1])),
          tiles((signs.rows + blocks::tile_rows - 1) / blocks::tile_rows) {}
    std::size_t maxima_bytes() const { return idx(n * tiles) * sizeof(float); }

    std::size_t scratch_bytes() const { return std::max(signs.scratch_bytes(n), weights.scratch_bytes(1)); }

    BlockFormat signs;
    Format weights;
    std::int64_t n, tiles;
  };

  // A thread's memory.
  struct Own {
    Own(char* at, const Shape& shape, int num_threads) {
      Workspace work(at);
      scratch = work.take<char>(shape.scratch_bytes());
      logits = work.take<float>(logits_bytes(shape, num_threads));
      sorted = work.take<float>(idx(shape.tiles) * sizeof(float));
      panel = work.take<char>(shape.weights.panel_bytes(1));
    }
    static std::size_t logits_bytes(const Shape& shape, int num_threads) {
      return idx(shape.n * shape.signs.chunk_rows(num_threads)) * sizeof(float);
    }
    static std::size_t bytes(const Shape& shape, int num_threads) {
      return Workspace::padded(shape.scratch_bytes()) + Workspace::padded(logits_bytes(shape, num_threads)) +
             Workspace::padded(idx(shape.tiles) * sizeof(float)) + Workspace::padded(shape.weights.panel_bytes(1));
    }
    char* scratch;
    float* logits;  // [n][rows of a chunk]
    float* sorted;  // [tiles]
    char* panel;    // of one column
  };

  // The largest number of every tile; NaN is ignored.
  static void write_maxima(const float* logits, std::int64_t rows, float* maxima) {
    for (std::int64_t row = 0; row < rows; row += blocks::tile_rows) {
      float largest = -std::numeric_limits<float>::infinity();
      const std::int64_t count = std::min<std::int64_t>(blocks::tile_rows, rows - row);
      for (std::int64_t i = 0; i < count; ++i) largest = logits[row + i] > largest ? logits[row + i] : largest;
      *maxima++ = largest;
    }
  }

  static float least_of_best(const float* maxima, std::int64_t tiles, float* sorted) {
    if (tiles <= num_best_tiles) return -std::numeric_limits<float>::infinity();
    std::copy(maxima, maxima + tiles, sorted);
    std::nth_element(sorted, sorted + num_best_tiles - 1, sorted + tiles, std::greater<float>());
    return sorted[num_best_tiles - 1];
  }
};

// The implementation of a product whose weights have this format.
template <class Format>
ggml::cpu::tensor_traits* product_traits(const ggml_tensor* op) {
  static MatMul<Format> matmul;
  static MatMulExperts<Format> experts;
  static BestRows<Format> best_rows;
  if (op->op == GGML_OP_MUL_MAT_ID) return &experts;
  const BlockTiles* tiles = tiles_of(op->src[0]);
  if (tiles != nullptr && tiles->signs != nullptr) return &best_rows;
  return &matmul;
}

}  // namespace specdec
