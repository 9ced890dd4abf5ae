#include "model_file/own_head.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/utf8.h"

namespace specdec {
namespace {

// The architectures that we have tried among those with a graph for such layers in llama.cpp
// (LLM_GRAPH_TYPE_DECODER_MTP).
struct Known {
  const char* architecture;
  bool has_several_layers;  // llama.cpp runs any of them; the graphs of the others assert that there is one
  bool rows_need_logits;
};
constexpr Known known[] = {{"qwen35", false, false},
                           {"qwen35moe", false, false},
                           {"glm4moe", false, false},
                           {"deepseek2", false, false},
                           {"nemotron_h_moe", false, false},
                           {"qwen3next", false, true},
                           {"hy_v3", true, false},
                           {"mimo2", true, true},
                           {"step35", true, true}};

const char* const remedy =
    "Use another draft, or none; or convert the model again, with its multi-token prediction layers";

}  // namespace

bool has_layer(const std::vector<GgufFile>& parts, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto belongs = [&](const GgufTensor& tensor) { return tensor.name.compare(0, prefix.size(), prefix) == 0; };
  return std::any_of(parts.begin(), parts.end(), [&](const GgufFile& part) {
    return std::any_of(part.tensors.begin(), part.tensors.end(), belongs);
  });
}

OwnHeadInfo own_head(const std::vector<GgufFile>& parts) {
  const GgufFile& first = parts.front();
  const std::string architecture = first.string("general.architecture").value_or(""), prefix = architecture + ".";
  OwnHeadInfo head;
  head.num_layers = static_cast<int>(first.integer(prefix + "nextn_predict_layers").value_or(0));
  const Known* const architecture_known = std::find_if(
      std::begin(known), std::end(known), [&](const Known& one) { return one.architecture == architecture; });
  if (head.num_layers == 0) {
    head.problem =
        std::string("the file has no drafting head (multi-token prediction layers), which draft=\"mtp\" means. ") +
        remedy;
  } else if (architecture_known == std::end(known)) {
    head.problem = "the drafting heads of architecture " + printable(architecture) +
                   " are not supported. Use another draft, or none";
  } else if (head.num_layers > 1 && !architecture_known->has_several_layers) {
    head.problem = "the drafting head has " + std::to_string(head.num_layers) +
                   " layers; only heads of one layer are supported for architecture " + architecture +
                   ". Use another draft, or none";
  }
  if (!head.problem.empty()) return head;
  head.rows_need_logits = architecture_known->rows_need_logits;
  // llama.cpp asserts that these tensors exist and have these sizes.
  const std::uint64_t width = first.integer(prefix + "embedding_length").value_or(0);
  const auto num_layers = static_cast<std::uint64_t>(head.num_layers);
  const std::uint64_t all = std::max(num_layers, first.integer(prefix + "block_count").value_or(0));
  const std::pair<const char*, std::vector<std::uint64_t>> needed[] = {
      {"eh_proj", {2 * width, width}}, {"enorm", {width}}, {"hnorm", {width}}};
  for (std::uint64_t i = all - num_layers; i < all; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".nextn.";
    for (const auto& [name, shape] : needed) {
      const GgufTensor* tensor = find_tensor(parts, layer + name + ".weight");
      if (tensor != nullptr && tensor->shape == shape) continue;
      head.is_damaged = true;
      head.problem = "the drafting head is damaged: tensor " + layer + name + ".weight " +
                     (tensor == nullptr ? "is missing" : "is not of this model's size") + ". " + remedy;
      return head;
    }
  }
  return head;
}

}  // namespace specdec
