// Attention in hand-made ggml graphs: the same bits for any number of threads and queries, and any division of the
// work.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>

#include "check.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "graph/attention.h"
#include "llama/backend.h"

namespace {

using namespace specdec;
using Floats = std::vector<float>;

struct Free {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

struct Shape {
  ggml_type type;
  int head_size, heads, kv_heads, cells, streams;
  int window = 1 << 20;  // cells that a query sees
};

// Random queries, keys and values with a causal mask.
class Attention {
 public:
  Attention(const Shape& shape, int num_queries) : shape_(shape), num_queries_(num_queries) {
    start_backend();
    ggml_init_params params{};
    params.mem_size = 512u << 20;
    context_.reset(ggml_init(params));
    queries_ = random_tensor(GGML_TYPE_F32, shape.heads, num_queries);
    keys_ = random_tensor(shape.type, shape.kv_heads, shape.cells);
    values_ = random_tensor(shape.type, shape.kv_heads, shape.cells);
  }

  // [streams][queries][heads][head_size] for queries [begin, end), on so many threads.
  Floats run(int begin, int end, int threads) {
    ggml_context* c = context_.get();
    const int count = end - begin;
    ggml_tensor* part =
        ggml_view_4d(c, queries_, shape_.head_size, shape_.heads, count, shape_.streams, queries_->nb[1],
                     queries_->nb[2], queries_->nb[3], static_cast<std::size_t>(begin) * queries_->nb[2]);
    ggml_tensor* q = ggml_permute(c, part, 0, 2, 1, 3);
    ggml_tensor* mask = ggml_new_tensor_4d(c, GGML_TYPE_F16, shape_.cells, count, 1, shape_.streams);
    for (int row = 0; row < count * shape_.streams; ++row) {
      const int visible = shape_.cells - num_queries_ + begin + row % count;
      for (int cell = 0; cell < shape_.cells; ++cell)
        static_cast<ggml_fp16_t*>(mask->data)[row * shape_.cells + cell] =
            cell <= visible && cell > visible - shape_.window ? 0 : 0xFC00;
    }
    ggml_tensor *k = ggml_permute(c, keys_, 0, 2, 1, 3), *v = ggml_permute(c, values_, 0, 2, 1, 3);
    ggml_tensor* result = ggml_flash_attn_ext(c, q, k, v, mask, 0.125f, 0, 0);
    ggml_cgraph* graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, result);
    CHECK(ggml_graph_compute_with_ctx(c, graph, threads) == GGML_STATUS_SUCCESS);
    Floats out(static_cast<std::size_t>(ggml_nelements(result)));
    std::memcpy(out.data(), result->data, out.size() * sizeof(float));
    return out;
  }

  // Whether queries [begin, end) alone, on num_threads threads, give the same bits as in `all`.
  bool agrees(const Floats& all, int begin, int end, int threads) {
    const Floats some = run(begin, end, threads);
    const auto row = static_cast<std::size_t>(shape_.heads * shape_.head_size),
               count = static_cast<std::size_t>(end - begin);
    for (std::size_t stream = 0; stream < static_cast<std::size_t>(shape_.streams); ++stream) {
      const float* expected =
          all.data() + (stream * static_cast<std::size_t>(num_queries_) + static_cast<std::size_t>(begin)) * row;
      if (std::memcmp(some.data() + stream * count * row, expected, count * row * sizeof(float)) != 0) return false;
    }
    return true;
  }

 private:
  ggml_tensor* random_tensor(ggml_type type, int heads, int rows) {
    ggml_tensor* t = ggml_new_tensor_4d(context_.get(), type, shape_.head_size, heads, rows, shape_.streams);
    std::normal_distribution<float> normal;
    Floats x(static_cast<std::size_t>(ggml_nelements(t)));
    for (float& value : x) value = normal(random_);
    if (type == GGML_TYPE_F32) std::memcpy(t->data, x.data(), x.size() * sizeof(float));
    else ggml_quantize_chunk(type, x.data(), t->data, 0, ggml_nrows(t), shape_.head_size, nullptr);
    return t;
  }

  Shape shape_;
  int num_queries_;
  std::unique_ptr<ggml_context, Free> context_;
  std::mt19937 random_{3};
  ggml_tensor *queries_, *keys_, *values_;
};

}  // namespace

TEST(threads_and_queries_change_nothing) {
  for (const Shape& shape :
       {Shape{GGML_TYPE_F16, 64, 8, 2, 1280, 1}, Shape{GGML_TYPE_Q8_0, 64, 6, 2, 1280, 2},
        Shape{GGML_TYPE_F16, 128, 3, 3, 256, 2}, Shape{GGML_TYPE_Q8_0, 128, 12, 2, 1280, 1, 300}}) {
    Attention attention(shape, 40);
    const Floats all = attention.run(0, 40, 1);
    for (const int threads : {2, 3, 7, 33}) CHECK(attention.run(0, 40, threads) == all);
    for (const int threads : {1, 5, 33}) {
      CHECK(attention.agrees(all, 0, 1, threads));
      CHECK(attention.agrees(all, 7, 15, threads));
    }
    Floats other = all;
    other[0] += 1;
    CHECK(!attention.agrees(other, 0, 1, 1));
  }
}

TEST(many_rows_divided_among_threads_instead_of_cells) {
  Attention attention({GGML_TYPE_F16, 64, 8, 2, 2304, 1}, 1700);  // states of all chunks would take 22 MB
  const Floats all = attention.run(0, 1700, 2);
  CHECK(attention.run(0, 1700, 3) == all);
  for (const int begin : {0, 600, 1699}) CHECK(attention.agrees(all, begin, begin + 1, 2));
}

TEST(many_rows_of_a_cache_in_q8_0) {
  Attention attention({GGML_TYPE_Q8_0, 64, 8, 2, 2304, 1}, 1700);
  const Floats all = attention.run(0, 1700, 2);
  for (const int begin : {0, 600, 1699}) CHECK(attention.agrees(all, begin, begin + 1, 2));
}

TEST(integers_are_close_to_floats) {
  for (const int window : {300, 1 << 20}) {
    Attention attention({GGML_TYPE_Q8_0, 128, 12, 2, 1280, 1, window}, 8);
    const Floats integers = attention.run(0, 8, 2);
    compute_attention_in_floats(true);
    const Floats floats = attention.run(0, 8, 2);
    compute_attention_in_floats(false);
    float largest = 0, error = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      largest = std::max(largest, std::fabs(floats[i]));
      error = std::max(error, std::fabs(floats[i] - integers[i]));
    }
    CHECK(error > 0);
    CHECK(error < 0.05f * largest);
  }
}

// The table of docs/losslessness.md.
TEST(kinds_of_attention_that_fall_back) {
  start_backend();
  ggml_init_params params{};
  params.mem_size = 16u << 20;
  params.no_alloc = true;
  const std::unique_ptr<ggml_context, Free> context(ggml_init(params));
  ggml_context* c = context.get();
  struct Kind {
    ggml_type keys = GGML_TYPE_Q8_0, values = GGML_TYPE_Q8_0;
    int head_size = 128, value_size = 128;
    float max_bias = 0, soft_cap = 0;
    bool has_sinks = false;
  };
  const auto is_ours = [c](const Kind& kind) {
    ggml_tensor* op =
        ggml_flash_attn_ext(c, ggml_new_tensor_4d(c, GGML_TYPE_F32, kind.head_size, 3, 4, 1),
                            ggml_new_tensor_4d(c, kind.keys, kind.head_size, 256, 2, 1),
                            ggml_new_tensor_4d(c, kind.values, kind.value_size, 256, 2, 1),
                            ggml_new_tensor_4d(c, GGML_TYPE_F16, 256, 3, 1, 1), 1.0f, kind.max_bias, kind.soft_cap);
    if (kind.has_sinks) ggml_flash_attn_ext_add_sinks(op, ggml_new_tensor_1d(c, GGML_TYPE_F32, 4));
    return attention_traits(op) != nullptr;
  };
  const ggml_type q8_0 = GGML_TYPE_Q8_0, f16 = GGML_TYPE_F16;
  for (const ggml_type type : {q8_0, f16}) {
    CHECK(is_ours({type, type}));
    CHECK(is_ours({type, type, 192, 128}));
    CHECK(is_ours({type, type, 256, 256}));
    CHECK(!is_ours({type, type, 576, 512}));  // MLA
    CHECK(!is_ours({type, type, 128, 128, 8.0f}));
    CHECK(!is_ours({type, type, 128, 128, 0, 50.0f}));
    CHECK(!is_ours({type, type, 128, 128, 0, 0, true}));
  }
  CHECK(is_ours({f16, f16, 80, 80}));
  CHECK(!is_ours({q8_0, f16}));
  CHECK(!is_ours({GGML_TYPE_F32, GGML_TYPE_F32}));
  CHECK(!is_ours({GGML_TYPE_Q4_0, GGML_TYPE_Q4_0}));
}

TEST_MAIN()
