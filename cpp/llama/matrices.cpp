#include "llama/matrices.h"

#include <algorithm>
#include <cstring>

#include "ggml-backend.h"
#include "llama-model.h"
#include "platform/memory.h"

namespace specdec {
namespace {

bool is_mapped(const ggml_tensor* tensor) {
  return tensor->buffer != nullptr &&
         std::strcmp(ggml_backend_buft_name(ggml_backend_buffer_get_type(tensor->buffer)), "CPU_Mapped") == 0;
}

}  // namespace

std::vector<Matrix> matrices_of(const llama_model* model) {
  const auto& tensors = llama_internal_get_tensor_map(model);
  const bool has_output =
      std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) { return entry.first == "output.weight"; });
  std::vector<Matrix> result;
  for (const auto& [name, tensor] : tensors) {
    const bool only_looked_up = name.rfind("per_layer_token_embd", 0) == 0 || name.rfind("markov_", 0) == 0 ||
                                name == "position_embd.weight" || (name == "token_embd.weight" && has_output);
    const auto is_same = [&, same = tensor](const Matrix& matrix) { return matrix.weights == same; };
    if (only_looked_up || !is_mapped(tensor) || std::any_of(result.begin(), result.end(), is_same)) continue;
    result.push_back({tensor, name == "output.weight" || name == "token_embd.weight"});
  }
  return result;
}

void expect_random_reads(const llama_model* model) {
  for (const auto& entry : llama_internal_get_tensor_map(model)) {
    if (is_mapped(entry.second)) expect_random_reads(entry.second->data, ggml_nbytes(entry.second));
  }
}

}  // namespace specdec
