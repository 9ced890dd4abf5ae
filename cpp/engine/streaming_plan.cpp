#include "engine/streaming_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/argument.h"

namespace specdec {
namespace {

constexpr std::uint64_t process_bytes = 32 << 20;
constexpr std::uint64_t bytes_of_token = 180;  // of a vocabulary: texts, scores, ranks

std::uint64_t metadata(const GgufFile& file, const char* key) {
  return file.integer(file.string("general.architecture").value_or("") + "." + key).value_or(0);
}

std::uint64_t vocabulary_of(const GgufFile& file) {
  const GgufArray* const tokens = file.array("tokenizer.ggml.tokens");
  return tokens == nullptr ? 0 : tokens->count;
}

// What a model needs besides weights and caches.
std::uint64_t scratch_of(const std::vector<GgufFile>& model, int pass_tokens, int rows) {
  const GgufFile& file = model.front();
  const std::uint64_t vocabulary = vocabulary_of(file);
  return vocabulary * (bytes_of_token + static_cast<std::uint64_t>(rows) * sizeof(float)) +
         static_cast<std::uint64_t>(pass_tokens) * sizeof(float) *
             (5 * metadata(file, "embedding_length") + 2 * metadata(file, "feed_forward_length"));
}

// Tensors that passes only look rows up in cost little memory.
bool is_looked_up(const std::vector<GgufFile>& model, const GgufTensor& tensor) {
  return tensor.name == "token_embd.weight" && find_tensor(model, "output.weight") != nullptr;
}

std::uint64_t weights_of(const std::vector<GgufFile>& model) {
  std::uint64_t bytes = 0;
  for (const GgufFile& part : model) {
    for (const GgufTensor& tensor : part.tensors) bytes += is_looked_up(model, tensor) ? 0 : tensor.bytes;
  }
  return bytes;
}

// Drafts are rounded to 4.5 bits, and of their output matrix there are signs besides the rows that passes read again.
std::uint64_t weights_of_draft(const std::vector<GgufFile>& draft, bool is_rounded) {
  if (!is_rounded) return weights_of(draft);
  std::uint64_t bytes = 0;
  for (const GgufFile& part : draft) {
    for (const GgufTensor& tensor : part.tensors) {
      const bool is_output = tensor.name == "output.weight" || tensor.name == "token_embd.weight";
      if (is_looked_up(draft, tensor)) continue;
      bytes += is_output ? tensor.elements() * 9 / 64 + tensor.bytes / 2
                         : std::min(tensor.bytes, tensor.elements() * 9 / 16);
    }
  }
  return bytes;
}

}  // namespace

std::uint64_t parse_memory(const std::string& size) {
  const auto fail = [&] { throw WrongValue("memory", size, "a size such as 11G, 800M or 11.5GB"); };
  char* end = nullptr;
  const double number = std::strtod(size.c_str(), &end);
  std::string unit(end);
  if (end == size.c_str() || !std::isfinite(number) || number <= 0) fail();
  double base = 1024;
  if (unit.size() == 3 && unit.substr(1) == "iB") unit.resize(1);
  if (unit.size() == 2 && unit[1] == 'B') {
    base = 1000;
    unit.resize(1);
  }
  const std::string units = "KMGT";
  const std::size_t power = unit.empty() || unit == "B" ? 0 : units.find(unit) + 1;
  if (power == 0 && !unit.empty() && unit != "B") fail();
  const double bytes = number * std::pow(base, static_cast<double>(power));
  if (bytes < 1 || bytes > 0x1p60) fail();
  return static_cast<std::uint64_t>(bytes);
}

StreamingPlan plan_streaming(const GeneratorOptions& options, std::uint64_t caches, int rows,
                             const std::vector<GgufFile>& target, const std::vector<GgufFile>& draft,
                             std::uint64_t available) {
  StreamingPlan plan;
  plan.budget = options.memory.empty() ? available / 16 * 15 : parse_memory(options.memory);
  plan.weights = weights_of(target);
  plan.others = process_bytes + caches + scratch_of(target, options.n_batch, rows);
  if (draft.empty()) return plan;
  plan.others += weights_of_draft(draft, options.repack && options.draft_weights != "file") +
                 scratch_of(draft, options.n_batch, options.max_sequences);
  return plan;
}

}  // namespace specdec
