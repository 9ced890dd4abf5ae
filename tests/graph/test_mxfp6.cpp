// MXFP6 weights in hand-made ggml graphs: views, permuted activations, experts, embedding rows, rejected operations.
//
// Activations are integers, with 127 in every block of 32, so their int8 rounding is exact: results differ from a plain
// sum over the decoded weights only by float rounding.

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "ggml_graph.h"
#include "graph/op_failure.h"
#include "weights/mxfp6/codec.h"

namespace {

using namespace specdec;

// A context for one graph, with weights [k, rows, matrices] in both forms.
class Graph : public GgmlGraph {
 public:
  Graph() : GgmlGraph(64u << 20) {}

  ggml_tensor* weights(std::int64_t k, std::int64_t rows, std::int64_t matrices = 1) {
    ggml_tensor* t = ggml_new_tensor_3d(get(), GGML_TYPE_MXFP6_E2M3, k, rows, matrices);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(k * rows));
    decoded.resize(static_cast<std::size_t>(k * rows * matrices));
    for (std::int64_t m = 0; m < matrices; ++m) {
      for (float& value : x) value = normal(random_);
      std::uint8_t* tiles = static_cast<std::uint8_t*>(t->data) + static_cast<std::size_t>(m) * t->nb[2];
      CHECK(mxfp6::quantize_tiles(mxfp6::ScaleRule::mse, x.data(), rows, k, tiles) == -1);
      for (std::int64_t row = 0; row < rows; ++row) {
        mxfp6::dequantize_row(tiles, k, row, decoded.data() + (m * rows + row) * k);
      }
    }
    return t;
  }

  ggml_tensor* activations(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
    ggml_tensor* t = ggml_new_tensor_3d(get(), GGML_TYPE_F32, a, b, c);
    float* x = static_cast<float*>(t->data);
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i)
      x[i] = i % 32 == 0 ? 127.0f : static_cast<float>(random_() % 255) - 127.0f;
    return t;
  }

  std::vector<float> decoded;  // [matrices, rows, k]

 private:
  std::mt19937 random_{7};
};

double dot(const float* w, const float* x, std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(w[i]) * static_cast<double>(x[i]);
  return sum;
}

const float* at(const ggml_tensor* t, std::int64_t i1, std::int64_t i2 = 0) {
  return reinterpret_cast<const float*>(static_cast<const char*>(t->data) + static_cast<std::size_t>(i1) * t->nb[1] +
                                        static_cast<std::size_t>(i2) * t->nb[2]);
}

bool all_nan(const ggml_tensor* t) {
  const float* x = static_cast<const float*>(t->data);
  for (std::int64_t i = 0; i < ggml_nelements(t); ++i) {
    if (!std::isnan(x[i])) return false;
  }
  return true;
}

constexpr std::int64_t k = 96, rows = 64;
constexpr double tolerance = 0.02;  // sums of 96 products of about 127

}  // namespace

TEST(matrix_times_columns_of_any_number) {
  for (const std::int64_t n : {1, 2, 7, 8, 9, 40}) {
    for (const int threads : {1, 2, 3}) {
      Graph graph;
      ggml_tensor *w = graph.weights(k, rows), *x = graph.activations(k, n);
      const float* y = graph.compute(ggml_mul_mat(graph.get(), w, x), threads);
      for (std::int64_t c = 0; c < n; ++c) {
        for (std::int64_t r = 0; r < rows; ++r)
          CHECK_NEAR(y[c * rows + r], dot(&graph.decoded[static_cast<std::size_t>(r * k)], at(x, c), k), tolerance);
      }
    }
  }
}

TEST(permuted_activations_share_one_matrix) {
  Graph graph;
  ggml_tensor *w = graph.weights(k, rows),
              *x = ggml_permute(graph.get(), graph.activations(k, 5, 3), 0, 2, 1, 3);  // [k, 3, 5]
  ggml_tensor* y = ggml_mul_mat(graph.get(), w, x);
  graph.compute(y);
  for (std::int64_t i2 = 0; i2 < 5; ++i2) {
    for (std::int64_t i1 = 0; i1 < 3; ++i1) {
      for (std::int64_t r = 0; r < rows; ++r)
        CHECK_NEAR(at(y, i1, i2)[r], dot(&graph.decoded[static_cast<std::size_t>(r * k)], at(x, i1, i2), k), tolerance);
    }
  }
}

TEST(several_matrices_each_serve_their_part) {
  Graph graph;
  ggml_tensor *w = graph.weights(k, rows, 2), *x = graph.activations(k, 3, 4);  // matrix i2 / 2
  ggml_tensor* y = ggml_mul_mat(graph.get(), w, x);
  graph.compute(y);
  for (std::int64_t i2 = 0; i2 < 4; ++i2) {
    for (std::int64_t r = 0; r < rows; ++r) {
      CHECK_NEAR(at(y, 2, i2)[r],
                 dot(&graph.decoded[static_cast<std::size_t>((i2 / 2 * rows + r) * k)], at(x, 2, i2), k), tolerance);
    }
  }
}

TEST(experts_are_chosen_per_token) {
  for (const std::int64_t shared : {1, 2}) {  // one activation per token, or one per expert used
    Graph graph;
    ggml_tensor *w = graph.weights(k, rows, 3), *x = graph.activations(k, shared, 5);
    ggml_tensor* y = ggml_mul_mat_id(graph.get(), w, x, graph.ids(chosen_experts, 2, 5));
    graph.compute(y);
    for_each_expert([&](std::int64_t token, std::int64_t used, std::int64_t expert) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const double expected =
            dot(&graph.decoded[static_cast<std::size_t>((expert * rows + r) * k)], at(x, used % shared, token), k);
        CHECK_NEAR(at(y, used, token)[r], expected, tolerance);
      }
    });
  }
}

TEST(rows_are_the_decoded_rows) {
  Graph graph;
  ggml_tensor* w = graph.weights(k, rows);
  const float* y = graph.compute(ggml_get_rows(graph.get(), w, graph.ids({63, 0, 17, 17}, 4)));
  const std::int64_t expected[] = {63, 0, 17, 17};
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t c = 0; c < k; ++c)
      CHECK(y[i * k + c] == graph.decoded[static_cast<std::size_t>(expected[i] * k + c)]);
  }
}

TEST(a_view_of_whole_bands_is_a_matrix) {
  Graph graph;
  ggml_tensor *w = graph.weights(k, rows), *x = graph.activations(k, 3);
  const float* y =
      graph.compute(ggml_mul_mat(graph.get(), ggml_view_2d(graph.get(), w, k, 32, w->nb[1], 16 * w->nb[1]), x));
  for (std::int64_t r = 0; r < 32; ++r)
    CHECK_NEAR(y[r], dot(&graph.decoded[static_cast<std::size_t>((16 + r) * k)], at(x, 0), k), tolerance);
}

TEST(what_cannot_be_computed_becomes_nan_and_a_reason) {
  Graph graph;
  ggml_tensor *w = graph.weights(k, rows), *x = graph.activations(k, 3);
  ggml_tensor* within_a_band = ggml_view_2d(graph.get(), w, k, 32, w->nb[1], 8 * w->nb[1]);
  ggml_set_name(within_a_band, "half");
  ggml_tensor* transposed = ggml_transpose(graph.get(), graph.activations(3, k));
  take_failure();
  for (ggml_tensor* y : {ggml_mul_mat(graph.get(), within_a_band, x), ggml_mul_mat(graph.get(), w, transposed),
                         ggml_get_rows(graph.get(), within_a_band, graph.ids({1}, 1))}) {
    for (const int threads : {1, 2}) {
      graph.compute(y, threads);
      CHECK(all_nan(y));
      const std::string why = take_failure();
      CHECK(why.find("MXFP6") != std::string::npos);
      CHECK((why.find("tensor \"half\"") == 0) == (y->src[0] == within_a_band));
      CHECK(take_failure().empty());
    }
  }
  graph.compute(ggml_mul_mat(graph.get(), w, x));
  CHECK(take_failure().empty());
}

TEST_MAIN()
