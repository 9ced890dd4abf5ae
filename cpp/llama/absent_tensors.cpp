#include "llama/absent_tensors.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gguf/problem.h"
#include "llama-model.h"
#include "llama/tensor_types.h"

namespace specdec {
namespace {

// Parsed from the assertion's message: "no tensor for FUNCTION with 'OTHER'". OTHER is the other operand, which
// llama.cpp may have named "...-LAYER".
struct Absence {
  bool is_product;
  std::string layer;  // "blk.1."; empty: unknown
};

std::optional<Absence> absence(const std::string& errors) {
  const std::string begin = "no tensor for ";
  const std::size_t at = errors.find(begin);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t end_of_function = errors.find(' ', at + begin.size());
  Absence found{errors.find("mul_mat", at) < end_of_function, ""};
  const std::size_t open = errors.find('\'', at), close = errors.find('\'', open + 1), dash = errors.rfind('-', close);
  if (close == std::string::npos || dash == std::string::npos || dash < open) return found;
  const std::string layer = errors.substr(dash + 1, close - dash - 1);
  const bool is_number = !layer.empty() && layer.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) found.layer = "blk." + layer + ".";
  return found;
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

// Tells matrices of products from everything else.
bool fits(const std::string& name, const Absence& absence) {
  return is_matrix_of_product(name) == absence.is_product &&
         (absence.layer.empty() || begins_with(name, absence.layer));
}

}  // namespace

std::string absent_tensors(const llama_model* model, const std::string& errors) {
  const std::optional<Absence> found = absence(errors);
  if (!found) return "";
  std::vector<std::string> names;
  for (const std::string& name : model->absent_tensors) {
    if (fits(name, *found) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string problem = "the file lacks a tensor that its architecture needs";
  constexpr std::size_t most = 6;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    problem += i > 0 ? ", " : names.size() == 1 ? ": " : ", one of ";
    problem += shown(names[i]);
  }
  return problem + (names.size() > most ? ", ..." : "");
}

}  // namespace specdec
