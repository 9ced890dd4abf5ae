#include "llama/device_speed.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>

#include "base/failed_assertions.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "llama/backend.h"
#include "llama/lost_devices.h"
#include "speculative/stats.h"

namespace specdec {
namespace {

constexpr int width = 4096, row_parts = 16, few_rows = 1024, matrix_rows = row_parts * few_rows, products = 4,
              repeats = 5;

void run(ggml_backend* backend, ggml_cgraph* graph) {
  if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) throw std::runtime_error("a product failed");
}

// Median seconds.
double time_graph(ggml_backend* backend, ggml_cgraph* graph) {
  std::array<double, repeats> seconds{};
  for (double& time : seconds) {
    const Stopwatch watch(time);
    run(backend, graph);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[repeats / 2];
}

struct Products {
  ggml_backend_ptr backend;
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  ggml_cgraph *small = nullptr, *large = nullptr;  // a part of the weights; several times all

  Products(ggml_backend_device* device, int columns) : backend(ggml_backend_dev_init(device, nullptr)) {
    if (!backend) throw std::runtime_error("it cannot be started");
    constexpr std::size_t tensors = 2 * products + 5;
    context.reset(
        ggml_init({tensors * ggml_tensor_overhead() + 2 * ggml_graph_overhead(), nullptr, /*no_alloc=*/true}));
    ggml_tensor* const weights = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q8_0, width, matrix_rows);
    ggml_tensor* const some_weights = ggml_view_2d(context.get(), weights, width, few_rows, weights->nb[1], 0);
    const auto add_product = [&](ggml_cgraph* graph, ggml_tensor* matrix) {
      ggml_tensor* const x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, width, columns);
      ggml_build_forward_expand(graph, ggml_mul_mat(context.get(), matrix, x));
    };
    small = ggml_new_graph(context.get());
    large = ggml_new_graph(context.get());
    add_product(small, some_weights);
    for (int i = 0; i < products; ++i) add_product(large, weights);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    if (!buffer) throw std::runtime_error("it has no memory for a product");
  }

  double time(double limit) const {
    ggml_backend_buffer_clear(buffer.get(), 0);
    run(backend.get(), small);  // compiles kernels
    const double estimate = time_graph(backend.get(), small) * row_parts;
    if (!(estimate <= limit)) return estimate;
    run(backend.get(), large);
    return time_graph(backend.get(), large) / products;
  }
};

}  // namespace

double seconds_of_product(ggml_backend_device* device, int columns, int num_threads, double limit) {
  start_backend();
  const AbortsAsErrors guard;
  const bool is_cpu = device == nullptr;
  if (is_cpu) device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto timed = std::make_shared<Products>(device, columns);
  if (is_cpu) ggml_backend_cpu_set_n_threads(timed->backend.get(), num_threads);
  try {
    return timed->time(limit);
  } catch (const std::runtime_error& failure) {
    if (!finish({device}, failure.what(), [&] { ggml_backend_synchronize(timed->backend.get()); })) keep(timed);
    throw;
  }
}

}  // namespace specdec
