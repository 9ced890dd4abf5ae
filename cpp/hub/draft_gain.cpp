#include "hub/draft_gain.h"

#include <algorithm>
#include <string>

namespace specdec {
namespace {

constexpr double draft_bits = 4.5, small_draft_bits = 8.5, sign_bits = 1.0;  // per weight
constexpr double small_draft = 200e6;   // weights; in smaller models only floats are rounded
constexpr double cost_of_token = 0.03;  // of one more token in the target's pass, in passes
constexpr int most_drafts = 16;

// Bytes of a draft model's matrix, which may be fewer than in the file.
double draft_bytes(const GgufTensor& tensor, bool is_output, bool is_small) {
  const auto elements = static_cast<double>(tensor.elements()), bytes = static_cast<double>(tensor.bytes);
  const bool is_float = bytes >= 2.0 * elements;
  const double bits = is_output   ? sign_bits
                      : !is_small ? draft_bits
                      : is_float  ? small_draft_bits
                                  : 8.0 * bytes / elements;
  return std::min(bytes, elements * bits / 8.0);
}

}  // namespace

double used_experts(const GgufFile& file) {
  const std::string prefix = file.string("general.architecture").value_or("") + ".";
  const double all = file.number(prefix + "expert_count").value_or(0.0),
               used = file.number(prefix + "expert_used_count").value_or(0.0);
  return all > 0.0 && used > 0.0 ? std::min(1.0, used / all) : 1.0;
}

double pass_bytes(const std::vector<GgufFile>& parts, bool as_draft) {
  const bool has_output = find_tensor(parts, "output.weight") != nullptr;
  const double share = used_experts(parts.front());
  double elements = 0.0, sum = 0.0;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) elements += static_cast<double>(tensor.elements());
  }
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors) {
      const bool is_embedding = tensor.name == "token_embd.weight";
      if (is_embedding && has_output) continue;
      const bool is_output = is_embedding || tensor.name == "output.weight";
      const bool is_expert = tensor.name.find("_exps.") != std::string::npos;
      const double bytes =
          as_draft ? draft_bytes(tensor, is_output, elements < small_draft) : static_cast<double>(tensor.bytes);
      sum += bytes * (is_expert ? share : 1.0);
    }
  }
  return sum;
}

BestDrafts best_drafts(double cost, double acceptance, const CostOfPass& cost_of_pass) {
  BestDrafts best = {0, 0.0};
  double tokens = 1.0, accepted = 1.0;
  for (int k = 1; k <= most_drafts; ++k) {
    accepted *= acceptance;
    tokens += accepted;
    const double pass = cost_of_pass ? cost_of_pass(k + 1) : 1.0;
    const double gain = tokens / (pass + k * (cost + cost_of_token));
    if (gain > best.gain) best = {k, gain};
  }
  return best;
}

double predicted_gain(double cost, double acceptance, const CostOfPass& cost_of_pass) {
  return best_drafts(cost, acceptance, cost_of_pass).gain;
}

}  // namespace specdec
