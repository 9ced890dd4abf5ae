// Totals over the GGUF files of a model; `specdec info` shows them as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec::cli {

using Parts = std::vector<GgufFile>;  // not empty; the first part has the model's metadata

// Totals of the tensors of one type.
struct TypeTotal {
  std::string name;
  std::string kernel;  // multiplies matrices of this type here (graph/kernels.h)
  std::uint64_t tensors = 0, parameters = 0, bytes = 0;

  double bits_per_weight() const;
  void add(const TypeTotal& other);
};

std::vector<TypeTotal> totals_by_type(const Parts& parts);  // most bytes first
TypeTotal sum(const std::vector<TypeTotal>& totals);

// The kernel that multiplies activations by each tensor of a part (graph/kernels.h); empty for tensors that no product
// reads: norms, biases, and embeddings that are only looked up.
std::vector<std::string> kernels_of_tensors(const Parts& parts, const GgufFile& part);

// A hyperparameter such as "block_count", stored as "<architecture>.block_count"; null if the file has none.
const GgufValue* hyperparameter(const GgufFile& file, const std::string& name);
std::optional<std::uint64_t> vocabulary_size(const GgufFile& file);

}  // namespace specdec::cli
