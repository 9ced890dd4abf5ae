#include "engine/streaming_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/argument.h"
#include "base/format.h"
#include "hub/draft_gain.h"

namespace specdec {
namespace {

constexpr std::uint64_t process_bytes = 64 << 20;  // with the pages of mapped files that it uses all the time
constexpr std::uint64_t bytes_of_token = 180;      // of a vocabulary: texts, scores, ranks
constexpr double memory_speed = 20e9;              // bytes per second of weights in memory, on a laptop

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

std::uint64_t output_of(const std::vector<GgufFile>& model) {
  const GgufTensor* const output = find_tensor(model, "output.weight");
  const GgufTensor* const tied = output == nullptr ? find_tensor(model, "token_embd.weight") : output;
  return tied == nullptr ? 0 : tied->bytes;
}

std::uint64_t experts_of(const std::vector<GgufFile>& model) {
  std::uint64_t bytes = 0;
  for (const GgufFile& part : model) {
    for (const GgufTensor& tensor : part.tensors)
      bytes += tensor.name.find("_exps.") != std::string::npos ? tensor.bytes : 0;
  }
  return bytes;
}

std::string gigabytes(double bytes) { return format("%.2f GB", 1e-9 * bytes); }

// Bits of a rounded weight; 0: it stays as it is.
double bits_of(const std::string& draft_weights) {
  if (draft_weights == "file") return 0;
  return draft_weights == "3-bit" ? 4.0 : draft_weights == "2-bit" ? 3.4 : 4.5;
}

// Of the output matrix of a rounded draft there are signs besides the file's rows, some of which every pass reads.
std::uint64_t weights_of_draft(const std::vector<GgufFile>& draft, double bits) {
  if (bits == 0) return weights_of(draft);
  std::uint64_t bytes = 0;
  for (const GgufFile& part : draft) {
    for (const GgufTensor& tensor : part.tensors) {
      const bool is_output = tensor.name == "output.weight" || tensor.name == "token_embd.weight";
      if (is_looked_up(draft, tensor)) continue;
      const auto rounded = static_cast<std::uint64_t>(static_cast<double>(tensor.elements()) * bits / 8);
      bytes += is_output ? tensor.elements() * 9 / 64 + tensor.bytes : std::min(tensor.bytes, rounded);
    }
  }
  return bytes;
}

}  // namespace

// A matrix that stays takes the place of its copy.
std::uint64_t StreamingPlan::stay() const {
  const std::uint64_t memory = for_weights(), least = least_for_drafts();
  if (copies == 0 || memory >= weights) return std::min(weights, memory);
  if (memory <= least || weights <= least) return std::min(output, memory);
  const double share = static_cast<double>(memory - least) / static_cast<double>(weights - least);
  return output + static_cast<std::uint64_t>(share * static_cast<double>(weights - output));
}

StreamingForecast StreamingForecast::of(const StreamingPlan& plan, double bytes_per_second) {
  const std::uint64_t single = plan.weights - plan.experts, stay = plan.stay();
  const auto read = [&](std::uint64_t memory) { return single - std::min(single, memory); };
  StreamingForecast forecast{plan.weights,     stay, read(stay), stay < plan.weights && plan.experts > 0,
                             bytes_per_second, {},   plan.pass,  plan.draft_pass};
  if (plan.draft > 0) forecast.read_without_draft = read(stay + plan.draft);
  if (plan.copies > 0) forecast.read_without_draft = read(plan.for_weights());
  const auto missing = [&](std::uint64_t memory) {
    return static_cast<double>(plan.experts - std::min(plan.experts, memory - std::min(memory, single)));
  };
  forecast.missing_experts = missing(stay);
  forecast.missing_without_draft = missing(plan.copies > 0 ? plan.for_weights() : stay + plan.draft);
  forecast.used_experts = plan.used_experts;
  return forecast;
}

bool StreamingForecast::draft_pays() const {
  if (!read_without_draft) return true;
  const auto seconds = [&](std::uint64_t single, double missing, int tokens) {
    const double bytes = static_cast<double>(single) + missing * (1.0 - std::pow(1.0 - used_experts, tokens));
    return std::max({bytes / bytes_per_second, pass / memory_speed, 1e-9});
  };
  const double with = seconds(read_by_a_pass, missing_experts, 1),
               without = seconds(*read_without_draft, missing_without_draft, 1);
  const auto cost_of_pass = [&](int tokens) { return seconds(read_by_a_pass, missing_experts, tokens) / with; };
  const double gain = predicted_gain(draft_pass / memory_speed / with, usual_acceptance, cost_of_pass);
  return gain * without >= least_gain * with;
}

std::string StreamingForecast::text() const {
  std::string text = "of " + gigabytes(static_cast<double>(weights)) + " of weights, " +
                     gigabytes(static_cast<double>(stay)) + " stay";
  if (read_by_a_pass > 0) {
    const auto bytes = static_cast<double>(read_by_a_pass);
    text += "; every pass reads " + gigabytes(bytes) + " from the disk at " + gigabytes(bytes_per_second) +
            "/s, about " + format("%.2g s", bytes / bytes_per_second);
  }
  if (reads_experts) {
    text += "; experts that are used less are read when they are chosen, at most " +
            gigabytes(missing_experts * used_experts) + " for a token";
  }
  if (!read_without_draft) return text + "; a draft model (-md) makes a pass worth several tokens";
  text += "; drafts make a pass worth several tokens";
  if (*read_without_draft < read_by_a_pass) {
    text += std::string(draft_pays() ? ", but without the draft it would read "
                                     : ", but the draft is hardly worth its memory: without it a pass would read ") +
            gigabytes(static_cast<double>(*read_without_draft));
  }
  return text;
}

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
                             const std::string& draft_weights, std::uint64_t available) {
  StreamingPlan plan;
  plan.budget = options.memory.empty() ? available / 16 * 15 : parse_memory(options.memory);
  plan.weights = weights_of(target);
  plan.experts = experts_of(target);
  plan.used_experts = used_experts(target.front());
  plan.others = process_bytes + caches + scratch_of(target, options.n_batch, rows);
  plan.pass = pass_bytes(target, false);
  if (draft.empty()) return plan;
  plan.draft = weights_of_draft(draft, options.repack ? bits_of(draft_weights) : 0) +
               scratch_of(draft, options.n_batch, rows_of_draft(options));
  plan.others += plan.draft;
  plan.draft_pass = pass_bytes(draft, true);
  return plan;
}

StreamingPlan plan_streaming_of_self(const GeneratorOptions& options, std::uint64_t caches, int rows,
                                     const std::vector<GgufFile>& target, const std::string& draft_weights,
                                     std::uint64_t available) {
  StreamingPlan plan = plan_streaming(options, caches, rows, target, {}, draft_weights, available);
  const double bits = bits_of(draft_weights);
  if (bits == 0) return plan;
  plan.output = output_of(target);
  plan.copies = weights_of_draft(target, bits) - plan.output;
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const std::uint64_t layers = plan.weights - plan.output;
  const double stay = plan.is_needed() ? ratio(plan.stay() - std::min(plan.stay(), plan.output), layers) : 0.0;
  plan.draft_pass = plan.pass * (stay + (1.0 - stay) * ratio(plan.copies, layers));
  return plan;
}

}  // namespace specdec
