#include "llama/invariant_kernels.h"

#include <vector>

#include "ggml-backend.h"
#include "llama-context.h"

namespace specdec {
namespace {

using Setter = void (*)(ggml_backend_t backend, bool wanted);

// Null if there is none.
Setter setter(ggml_backend_device* device) {
  return reinterpret_cast<Setter>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_batch_invariant"));
}

}  // namespace

bool has_invariant_kernels(ggml_backend_device* device) { return setter(device) != nullptr; }

bool use_invariant_kernels(const llama_context& context, bool wanted) {
  ggml_backend_sched_t scheduler = context.get_sched();
  std::vector<ggml_backend_t> backends;
  for (int i = 0; i < ggml_backend_sched_get_n_backends(scheduler); ++i) {
    ggml_backend_t backend = ggml_backend_sched_get_backend(scheduler, i);
    ggml_backend_device* device = ggml_backend_get_device(backend);
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) continue;  // its kernels always are
    if (!has_invariant_kernels(device)) return false;
    backends.push_back(backend);
  }
  for (ggml_backend_t backend : backends) setter(ggml_backend_get_device(backend))(backend, wanted);
  return true;
}

std::vector<Token> some_text(int length, int vocabulary_size) {
  std::vector<Token> tokens;
  for (unsigned i = 0; i < static_cast<unsigned>(length); ++i) {
    tokens.push_back(static_cast<Token>((i * 2654435761u >> 12) % static_cast<unsigned>(vocabulary_size)));
  }
  return tokens;
}

}  // namespace specdec
