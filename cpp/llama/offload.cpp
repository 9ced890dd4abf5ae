#include "llama/offload.h"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <stdexcept>

#include "base/utf8.h"

namespace specdec {

int layer_of(const std::string& name) { return name.rfind("blk.", 0) == 0 ? std::atoi(name.c_str() + 4) : -1; }

std::vector<Offload::Override> experts_on_the_cpu(int num_layers) {
  const std::string experts = "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";
  std::vector<Offload::Override> overrides;
  constexpr int most = 512;  // layers; no model has more
  if (num_layers > most) return {{experts, nullptr}};
  for (int i = 0; i < num_layers; ++i) overrides.push_back({"^blk\\." + std::to_string(i) + experts, nullptr});
  return overrides;
}

std::pair<std::string, std::string> parse_override(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::string problem = "\"" + printable(text) + "\": expected PATTERN=DEVICE";
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) throw std::invalid_argument(problem);
  try {
    (void)std::regex(text.substr(0, equals));
  } catch (const std::regex_error&) {
    throw std::invalid_argument(problem + ", and PATTERN is not a valid regular expression");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

OffloadedTensors::OffloadedTensors(const std::vector<GgufFile>& parts, const Offload& offload)
    : is_used_(offload.is_used()), has_output_(find_tensor(parts, "output.weight") != nullptr) {
  for (const Offload::Override& one : offload.overrides) {
    overrides_.push_back({std::regex(one.pattern), one.device != nullptr});
  }
  const std::string key = parts.front().string("general.architecture").value_or("") + ".block_count";
  const auto all = static_cast<int>(parts.front().integer(key).value_or(0));
  first_ = offload.num_layers < 0 ? 0 : std::max(0, all + 1 - offload.num_layers);
}

bool OffloadedTensors::contain(const std::string& name) const {
  if (!is_used_) return false;
  for (const Override& override : overrides_) {
    if (std::regex_search(name, override.pattern)) return override.is_on_device;
  }
  if (const int layer = layer_of(name); layer >= 0) return layer >= first_;
  return name.rfind("output", 0) == 0 || (name == "token_embd.weight" && !has_output_);
}

}  // namespace specdec
