// Rows times one number each: the products that llama.cpp defines, for any shape that it allows and any threads.
#include "check.h"
#include "ggml_graph.h"
#include "graph/scaled_rows.h"

namespace {

using namespace specdec;

ggml_tensor* numbers(const GgmlGraph& graph, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  ggml_tensor* t = ggml_new_tensor_4d(graph.get(), GGML_TYPE_F32, a, b, c, d);
  auto* values = static_cast<float*>(t->data);
  for (std::int64_t i = 0; i < ggml_nelements(t); ++i) values[i] = static_cast<float>((i * 37 + a) % 101 - 50) / 7.0f;
  return t;
}

float at(const ggml_tensor* t, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  const std::int64_t place[] = {i0 % t->ne[0], i1 % t->ne[1], i2 % t->ne[2], i3 % t->ne[3]};
  const char* data = static_cast<const char*>(t->data);
  for (int i = 0; i < 4; ++i) data += static_cast<std::size_t>(place[i]) * t->nb[i];
  return *reinterpret_cast<const float*>(data);
}

void check_products(const GgmlGraph& graph, ggml_tensor* x, ggml_tensor* scales) {
  for (const int threads : {1, 2, 3}) {
    ggml_tensor* product = ggml_mul(graph.get(), x, scales);
    CHECK(scaled_rows_traits(product) != nullptr);
    graph.compute(product, threads);
    for (std::int64_t i = 0; i < ggml_nelements(x); ++i) {
      const std::int64_t i0 = i % x->ne[0], i1 = i / x->ne[0] % x->ne[1], i2 = i / x->ne[0] / x->ne[1] % x->ne[2],
                         i3 = i / x->ne[0] / x->ne[1] / x->ne[2];
      CHECK(at(product, i0, i1, i2, i3) == at(x, i0, i1, i2, i3) * at(scales, i0, i1, i2, i3));
    }
  }
}

}  // namespace

TEST(products_of_experts) {
  const GgmlGraph graph(1 << 22);
  for (const std::int64_t size : {2, 16, 33, 100}) {
    check_products(graph, numbers(graph, size, 8, 3, 1), numbers(graph, 1, 8, 3, 1));
  }
}

TEST(repeated_scales_and_views) {
  const GgmlGraph graph(1 << 22);
  ggml_tensor* x = numbers(graph, 32, 6, 4, 2);
  check_products(graph, x, numbers(graph, 1, 1, 1, 1));
  check_products(graph, x, numbers(graph, 1, 3, 4, 1));
  ggml_tensor* part = ggml_view_3d(graph.get(), x, 20, 6, 4, x->nb[1], x->nb[2], 8 * sizeof(float));
  check_products(graph, part, numbers(graph, 1, 6, 4, 1));
}

TEST(other_operations_are_llama_cpps) {
  const GgmlGraph graph(1 << 20);
  ggml_tensor *x = numbers(graph, 32, 6, 4, 1), *column = numbers(graph, 1, 6, 4, 1);
  CHECK(scaled_rows_traits(ggml_mul(graph.get(), x, numbers(graph, 32, 6, 4, 1))) == nullptr);
  CHECK(scaled_rows_traits(ggml_mul(graph.get(), x, numbers(graph, 16, 6, 4, 1))) == nullptr);
  CHECK(scaled_rows_traits(ggml_mul(graph.get(), column, column)) == nullptr);
  CHECK(scaled_rows_traits(ggml_add(graph.get(), x, column)) == nullptr);
  CHECK(scaled_rows_traits(ggml_mul(graph.get(), x, ggml_new_tensor_1d(graph.get(), GGML_TYPE_F16, 1))) == nullptr);
}

TEST_MAIN()
