#include "cli/commands/gguf_summary.h"

#include <algorithm>

#include "graph/kernels.h"
#include "llama/tensor_types.h"

namespace specdec::cli {

double TypeTotal::bits_per_weight() const {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

void TypeTotal::add(const TypeTotal& other) {
  tensors += other.tensors;
  parameters += other.parameters;
  bytes += other.bytes;
}

std::vector<TypeTotal> totals_by_type(const Parts& parts) {
  std::vector<TypeTotal> totals;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      const TypeTotal one{find_weight_type(tensor.type)->name, kernel_of_type(static_cast<int>(tensor.type)), 1,
                          tensor.elements(), tensor.bytes};
      const auto same =
          std::find_if(totals.begin(), totals.end(), [&](const TypeTotal& t) { return t.name == one.name; });
      if (same == totals.end()) totals.push_back(one);
      else same->add(one);
    }
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const TypeTotal& a, const TypeTotal& b) { return a.bytes > b.bytes; });
  return totals;
}

TypeTotal sum(const std::vector<TypeTotal>& totals) {
  TypeTotal all{"all", ""};
  for (const TypeTotal& total : totals) all.add(total);
  return all;
}

std::vector<std::string> kernels_of_tensors(const Parts& parts, const GgufFile& part) {
  const bool has_output = std::any_of(parts.begin(), parts.end(), [](const GgufFile& file) {
    return std::any_of(file.tensors.begin(), file.tensors.end(),
                       [](const GgufTensor& tensor) { return tensor.name == "output.weight"; });
  });
  std::vector<std::string> kernels;
  for (const GgufTensor& tensor : part.tensors) {
    const bool is_only_looked_up = tensor.name == "token_embd.weight" && has_output;
    const bool is_multiplied = is_matrix_of_product(tensor.name) && !is_only_looked_up;
    kernels.emplace_back(is_multiplied ? kernel_of_type(static_cast<int>(tensor.type)) : "");
  }
  return kernels;
}

const GgufValue* hyperparameter(const GgufFile& file, const std::string& name) {
  return file.find(file.string("general.architecture").value_or("") + "." + name);
}

std::optional<std::uint64_t> vocabulary_size(const GgufFile& file) {
  if (const GgufArray* tokens = file.array("tokenizer.ggml.tokens")) return tokens->count;
  return file.integer(file.string("general.architecture").value_or("") + ".vocab_size");
}

}  // namespace specdec::cli
