// Builds ggml graphs of single operations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "llama/backend.h"

// A ggml context for the tensors of a test, and computation of its graph with our kernels.
class GgmlGraph {
 public:
  explicit GgmlGraph(std::size_t bytes) {
    specdec::start_backend();
    ggml_init_params params{};
    params.mem_size = bytes;
    context_.reset(ggml_init(params));
  }
  ggml_context* get() const { return context_.get(); }

  ggml_tensor* ids(const std::vector<std::int32_t>& values, std::int64_t a, std::int64_t b = 1) const {
    ggml_tensor* t = ggml_new_tensor_2d(get(), GGML_TYPE_I32, a, b);
    std::copy(values.begin(), values.end(), static_cast<std::int32_t*>(t->data));
    return t;
  }

  const float* compute(ggml_tensor* result, int threads = 2) const {
    ggml_cgraph* graph = ggml_new_graph(get());
    ggml_build_forward_expand(graph, result);
    CHECK(ggml_graph_compute_with_ctx(get(), graph, threads) == GGML_STATUS_SUCCESS);
    return static_cast<const float*>(result->data);
  }

 private:
  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };
  std::unique_ptr<ggml_context, Free> context_;
};

// Which of three experts five tokens use, [2 used, 5 tokens], for MUL_MAT_ID.
inline const std::vector<std::int32_t> chosen_experts = {2, 0, 1, 1, 2, 1, 0, 2, 2, 0};

// Calls check(token, used, expert) for each of them.
template <class Check>
void for_each_expert(Check check) {
  for (std::int64_t i = 0; i < 10; ++i) check(i / 2, i % 2, chosen_experts[static_cast<std::size_t>(i)]);
}
