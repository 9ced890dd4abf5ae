// F16, BF16 and F32 matrices in hand-made ggml graphs: views, permuted activations, several matrices, experts.
//
// Weights and activations are small integers, so all types and sums here are exact, and results equal plain sums.

#include <cmath>
#include <cstdint>
#include <random>

#include "ggml_graph.h"

namespace {

using namespace specdec;

class Graph : public GgmlGraph {
 public:
  explicit Graph(ggml_type type) : GgmlGraph(32u << 20), type_(type) {}

  ggml_tensor* weights(std::int64_t k, std::int64_t rows, std::int64_t matrices = 1) {
    ggml_tensor* t = ggml_new_tensor_3d(get(), type_, k, rows, matrices);
    std::vector<float> x(static_cast<std::size_t>(ggml_nelements(t)));
    for (float& value : x) value = static_cast<float>(random_() % 15) - 7.0f;
    const auto count = static_cast<std::int64_t>(x.size());
    if (type_ == GGML_TYPE_F16) ggml_fp32_to_fp16_row(x.data(), static_cast<ggml_fp16_t*>(t->data), count);
    else if (type_ == GGML_TYPE_BF16) ggml_fp32_to_bf16_row(x.data(), static_cast<ggml_bf16_t*>(t->data), count);
    else std::copy(x.begin(), x.end(), static_cast<float*>(t->data));
    return t;
  }

  ggml_tensor* activations(std::int64_t a, std::int64_t b, std::int64_t c = 1, std::int64_t d = 1) {
    ggml_tensor* t = ggml_new_tensor_4d(get(), GGML_TYPE_F32, a, b, c, d);
    float* x = static_cast<float*>(t->data);
    // More than 11 bits, so that the test detects activations rounded to F16 or BF16.
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i) x[i] = static_cast<float>(random_() % 32768) - 16384.0f;
    return t;
  }

 private:
  ggml_type type_;
  std::mt19937 random_{7};
};

const char* place(const ggml_tensor* t, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  const auto offset = [](std::int64_t i, std::size_t stride) { return static_cast<std::size_t>(i) * stride; };
  return static_cast<const char*>(t->data) + offset(i0, t->nb[0]) + offset(i1, t->nb[1]) + offset(i2, t->nb[2]) +
         offset(i3, t->nb[3]);
}

float number(const ggml_tensor* t, std::int64_t i0, std::int64_t i1, std::int64_t i2 = 0, std::int64_t i3 = 0) {
  const char* p = place(t, i0, i1, i2, i3);
  if (t->type == GGML_TYPE_F16) return ggml_fp16_to_fp32(*reinterpret_cast<const ggml_fp16_t*>(p));
  if (t->type == GGML_TYPE_BF16) return ggml_bf16_to_fp32(*reinterpret_cast<const ggml_bf16_t*>(p));
  return *reinterpret_cast<const float*>(p);
}

// Every number of MUL_MAT's result.
void check_product(const ggml_tensor* y) {
  const ggml_tensor *w = y->src[0], *x = y->src[1];
  for (std::int64_t i3 = 0; i3 < y->ne[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < y->ne[2]; ++i2) {
      for (std::int64_t i1 = 0; i1 < y->ne[1]; ++i1) {
        for (std::int64_t i0 = 0; i0 < y->ne[0]; ++i0) {
          float sum = 0.0f;
          for (std::int64_t i = 0; i < w->ne[0]; ++i) {
            sum += number(w, i, i0, i2 / (x->ne[2] / w->ne[2]), i3 / (x->ne[3] / w->ne[3])) * number(x, i, i1, i2, i3);
          }
          CHECK(number(y, i0, i1, i2, i3) == sum);
        }
      }
    }
  }
}

constexpr ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32};
constexpr std::int64_t k = 90, rows = 70;

}  // namespace

TEST(matrix_times_columns_of_any_number) {
  for (const ggml_type type : types) {
    for (const std::int64_t n : {1, 2, 7, 8, 9, 40}) {
      for (const int threads : {1, 2, 3}) {
        Graph graph(type);
        ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(k, rows), graph.activations(k, n));
        graph.compute(y, threads);
        check_product(y);
      }
    }
  }
}

TEST(permuted_activations_share_one_matrix) {
  for (const ggml_type type : types) {
    Graph graph(type);
    ggml_tensor* x = ggml_permute(graph.get(), graph.activations(k, 5, 3), 0, 2, 1, 3);
    ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(k, rows), x);
    graph.compute(y);
    check_product(y);
  }
}

TEST(several_matrices_each_serve_their_part) {
  for (const ggml_type type : types) {
    Graph graph(type);
    ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(k, rows, 2), graph.activations(k, 3, 4, 2));
    graph.compute(y);
    check_product(y);
  }
}

// As in attention without flash attention: the rows of a head are interleaved with those of other heads.
TEST(views_with_rows_apart) {
  for (const ggml_type type : types) {
    Graph graph(type);
    ggml_tensor* heads = ggml_permute(graph.get(), graph.weights(30, 4, rows), 0, 2, 1, 3);  // [30, rows, 4]
    ggml_tensor* y = ggml_mul_mat(graph.get(), heads, graph.activations(30, 3, 8));
    graph.compute(y);
    check_product(y);
    ggml_tensor* w = graph.weights(k, rows);
    y = ggml_mul_mat(graph.get(), ggml_view_2d(graph.get(), w, 50, 20, w->nb[1], 7 * w->nb[1] + 3 * w->nb[0]),
                     graph.activations(50, 4));
    graph.compute(y);
    check_product(y);
  }
}

TEST(experts_are_chosen_per_token) {
  for (const ggml_type type : types) {
    for (const std::int64_t shared : {1, 2}) {  // one activation per token, or one per expert used
      Graph graph(type);
      ggml_tensor *w = graph.weights(k, rows, 3), *x = graph.activations(k, shared, 5);
      ggml_tensor* y = ggml_mul_mat_id(graph.get(), w, x, graph.ids(chosen_experts, 2, 5));
      graph.compute(y);
      for_each_expert([&](std::int64_t token, std::int64_t used, std::int64_t expert) {
        for (std::int64_t r = 0; r < rows; ++r) {
          float sum = 0.0f;
          for (std::int64_t i = 0; i < k; ++i) sum += number(w, i, r, expert) * number(x, i, used % shared, token);
          CHECK(number(y, r, used, token) == sum);
        }
      });
    }
  }
}

// F16 activations are left to llama.cpp's own kernel.
TEST(half_precision_activations_stay_with_llama_cpp) {
  Graph graph(GGML_TYPE_F16);
  ggml_tensor* y = ggml_mul_mat(graph.get(), graph.weights(k, rows), graph.weights(k, 3));
  graph.compute(y);
  check_product(y);
}

TEST_MAIN()
