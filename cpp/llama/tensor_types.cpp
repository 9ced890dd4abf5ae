#include "llama/tensor_types.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf/problem.h"
#include "llama-arch.h"
#include "platform/file.h"

namespace specdec {
namespace {

// "blk.12.ffn_up.3" -> "blk.#.ffn_up.#": layers and experts all have the same operation.
std::string without_numbers(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool starts_number = std::isdigit(static_cast<unsigned char>(name[i])) != 0 && i > 0 && name[i - 1] == '.';
    if (!starts_number) {
      result += name[i];
      continue;
    }
    while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0) ++i;
    result += '#';
  }
  return result;
}

// The operation of each tensor, by its name without numbers and without ".weight".
const std::map<std::string, ggml_op>& operations() {
  static const std::map<std::string, ggml_op> table = [] {
    std::map<std::string, ggml_op> result;
    constexpr int last = LLM_TENSOR_DFLASH_SELECTOR_HIDDEN;
    for (int id = 0; id <= last; ++id) {
      const auto tensor = static_cast<llm_tensor>(id);
      try {
        const ggml_op op = llm_tensor_info_for(tensor).op;
        result[without_numbers(LLM_TN(LLM_ARCH_LLAMA)(tensor, 0, 0).str())] = op;
      } catch (const std::out_of_range&) {  // not a tensor of any model
      }
    }
    return result;
  }();
  return table;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The operation that yields the ids of a token's experts; in some layers a tensor holds them for each token of the
// vocabulary.
constexpr ggml_op expert_ids_op = GGML_OP_ARGSORT;

// Nullopt if no model uses a tensor of that name. In some models the embedding is also the output matrix.
std::optional<ggml_op> operation(const std::string& name) {
  std::string base = without_numbers(name);
  const bool is_bias = ends_with(base, ".bias");
  for (const char* suffix : {".weight", ".bias"}) {
    if (ends_with(base, suffix)) base.resize(base.size() - std::string(suffix).size());
  }
  if (base == "token_embd" && !is_bias) return GGML_OP_MUL_MAT;
  if (base == "blk.#.ffn_gate_tid2eid") return expert_ids_op;
  if (base == "d2t") return GGML_OP_NONE;  // ids, checked with the head that they belong to (head_file.h)
  const auto found = operations().find(base);
  if (found == operations().end()) return std::nullopt;
  return is_bias ? GGML_OP_ADD : found->second;
}

// Whether a product with weights of this type has a kernel, llama.cpp's or ours.
bool multiplies(ggml_type type) {
  return type == GGML_TYPE_MXFP6_E2M3 || ggml_get_type_traits_cpu(type)->vec_dot != nullptr;
}

// Null if the type is allowed; otherwise which types are.
const char* problem(ggml_op op, ggml_type type) {
  switch (op) {
    case GGML_OP_NONE:
      return nullptr;  // the tensor is not used
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_GET_ROWS:
      return multiplies(type) ? nullptr : "a float type or one of llama.cpp's quantized types";
    case expert_ids_op:
      return type == GGML_TYPE_I32 ? nullptr : "I32";
    case GGML_OP_IM2COL:
      return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 ? nullptr : "F32 or F16";
    default:  // element by element with F32 activations, rotations, convolutions, scans
      return type == GGML_TYPE_F32 ? nullptr : "F32";
  }
}

// The product of experts reads and writes at these ids without checking them.
void check_expert_ids(const GgufFile& first, const GgufFile& part, const GgufTensor& tensor) {
  const auto num_experts = static_cast<std::int64_t>(
      first.integer(first.string("general.architecture").value_or("") + ".expert_count").value_or(0));
  const File file = File::open(part.path);
  std::vector<std::int32_t> ids;
  constexpr std::uint64_t at_once = 1 << 20;  // bytes
  for (std::uint64_t done = 0; done < tensor.bytes; done += at_once) {
    ids.resize(static_cast<std::size_t>(std::min(at_once, tensor.bytes - done)) / sizeof ids[0]);
    file.read(tensor.offset + done, ids.data(), ids.size() * sizeof ids[0]);
    const auto wrong =
        std::find_if(ids.begin(), ids.end(), [=](std::int32_t id) { return id < 0 || id >= num_experts; });
    if (wrong == ids.end()) continue;
    const std::string problem =
        " has " + std::to_string(*wrong) + ", not one of the " + std::to_string(num_experts) + " experts";
    fail_file(part.path, "tensor " + shown(tensor.name) + problem, convert_again);
  }
}

}  // namespace

void check_tensor_types(const std::vector<GgufFile>& parts) {
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      const std::optional<ggml_op> op = operation(tensor.name);
      const char* expected = op ? problem(*op, static_cast<ggml_type>(tensor.type)) : nullptr;
      if (expected == nullptr) {
        if (op == expert_ids_op) check_expert_ids(parts.front(), part, tensor);
        continue;
      }
      fail_file(part.path,
                "tensor " + shown(tensor.name) + " has type " + find_weight_type(tensor.type)->name + ", expected " +
                    expected,
                convert_again);
    }
  }
}

bool is_matrix_of_product(const std::string& name) {
  const std::optional<ggml_op> op = operation(name);
  return op == GGML_OP_MUL_MAT || op == GGML_OP_MUL_MAT_ID;
}

}  // namespace specdec
