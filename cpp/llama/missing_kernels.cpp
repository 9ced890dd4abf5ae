#include "llama/missing_kernels.h"

#include <cstdint>
#include <map>

#include "base/weight_types.h"
#include "ggml-backend.h"
#include "llama-model.h"
#include "platform/memory.h"

namespace specdec {

std::string weights_without_kernels(const llama_model* model, const std::vector<GgufFile>& parts,
                                    const Offload& offload) {
  if (!offload.is_used()) return "";
  const OffloadedTensors offloaded(parts, offload);
  std::map<ggml_type, std::uint64_t> bytes;
  for (const auto& [name, tensor] : llama_internal_get_tensor_map(model)) {
    if (tensor->buffer == nullptr || !ggml_backend_buffer_is_host(tensor->buffer)) continue;
    // The embedding is looked up by the CPU. If it is also the output matrix, a copy is on the device.
    if (name != "token_embd.weight" && offloaded.contain(name)) bytes[tensor->type] += ggml_nbytes(tensor);
  }
  std::string text;
  for (const auto& [type, sum] : bytes)
    text += (text.empty() ? "" : ", ") + mebibytes(sum) + " in " + find_weight_type(type)->name;
  return text;
}

}  // namespace specdec
