#include "model_file/head_file.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "base/weight_types.h"
#include "gguf/problem.h"
#include "model_file/block_file.h"
#include "model_file/head_checks.h"
#include "model_file/kv_cache.h"
#include "model_file/own_head.h"
#include "platform/file.h"

namespace specdec {

std::string architecture_of(const std::vector<GgufFile>& parts) {
  return parts.front().string("general.architecture").value_or("");
}

std::uint64_t hyperparameter(const std::vector<GgufFile>& parts, const std::string& name) {
  return parts.front().integer(architecture_of(parts) + "." + name).value_or(0);
}

std::uint64_t vocabulary_size(const std::vector<GgufFile>& parts) {
  const GgufArray* tokens = parts.front().array("tokenizer.ggml.tokens");
  return tokens == nullptr ? 0 : tokens->count;
}

void reject_head(const std::vector<GgufFile>& head, const std::string& problem) {
  throw ModelError(head.front().path + ": " + head_file(head).name + " " + problem);
}

void reject_damaged_head(const std::vector<GgufFile>& head, const std::string& problem) {
  fail_file(head.front().path, problem, convert_again);
}

namespace {

constexpr std::size_t eagle3_layers = 3;     // number of the target's layers that an EAGLE-3 head reads
constexpr std::uint64_t most_layers = 4096;  // upper bound for any head
constexpr const char* other_head = ". Use a head that was made for this target";

// llama.cpp writes the logits of the head's tokens to these ids without checking them.
void check_ids(const std::vector<GgufFile>& head, const GgufTensor& ids) {
  const std::string name = "tensor \"d2t\", the target's ids of the head's tokens, ";
  constexpr int i64 = 27;  // ggml's id
  if (ids.type != i64 || ids.shape.size() != 1) reject_damaged_head(head, name + "is not a list of 64-bit numbers");
  const std::uint64_t size = vocabulary_size(head);
  if (ids.shape[0] > size) reject_damaged_head(head, name + "has more elements than the vocabulary has tokens");
  const auto file = std::find_if(head.begin(), head.end(), [&](const GgufFile& part) {
    return std::any_of(part.tensors.begin(), part.tensors.end(),
                       [&](const GgufTensor& tensor) { return &tensor == &ids; });
  });
  std::vector<std::int64_t> values(ids.shape[0]);
  File::open(file->path).read(ids.offset, values.data(), values.size() * sizeof values[0]);
  std::vector<bool> seen(size, false);
  for (const std::int64_t id : values) {
    const auto index = idx(id);
    if (id < 0 || index >= size)
      reject_damaged_head(head, name + "has " + std::to_string(id) + ", not an id of the vocabulary");
    if (seen[index]) reject_damaged_head(head, name + "has " + std::to_string(id) + " twice");
    seen[index] = true;
  }
}

}  // namespace

std::vector<int> target_layers(const std::vector<GgufFile>& head) {
  const GgufArray* layers = head.front().array(architecture_of(head) + ".target_layers");
  if (layers == nullptr || layers->count > most_layers) return {};
  std::vector<int> result;
  for (const GgufValue& value : layers->elements()) {
    const auto* natural = std::get_if<std::uint64_t>(&value);
    const auto* whole = std::get_if<std::int64_t>(&value);
    const bool is_natural = natural != nullptr && *natural <= INT32_MAX,
               is_whole = whole != nullptr && *whole >= 0 && *whole <= INT32_MAX;
    if (!is_natural && !is_whole) return {};
    result.push_back(is_natural ? static_cast<int>(*natural) : static_cast<int>(*whole));
  }
  return result;
}

void check_target_layers(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target) {
  const auto layers =
      static_cast<int>(hyperparameter(target, "block_count") - hyperparameter(target, "nextn_predict_layers"));
  const std::vector<int> read = target_layers(head);
  const bool is_eagle3 = head_file(head).kind == HeadKind::eagle3;
  if (read.empty() || (is_eagle3 && read.size() != eagle3_layers)) {
    reject_damaged_head(head, "metadata \"" + architecture_of(head) + ".target_layers\" is not an array of " +
                                  (is_eagle3 ? "3 layers" : "layers"));
  }
  for (const int layer : read) {
    if (layer <= layers) continue;
    reject_head(head, "reads layer " + std::to_string(layer) + " of its target; " + target.front().path + " has " +
                          std::to_string(layers) + other_head);
  }
}

void check_width(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target, std::uint64_t expected) {
  const std::uint64_t width = hyperparameter(target, "embedding_length");
  if (expected == width) return;
  reject_head(head, "is for a target of width " + std::to_string(expected) + "; that of " + target.front().path +
                        " is " + std::to_string(width) + other_head);
}

void check_own_vocabulary(const std::vector<GgufFile>& head) {
  const GgufTensor* ids = find_tensor(head, "d2t");
  if (ids != nullptr) check_ids(head, *ids);
  const GgufTensor* embeddings = find_tensor(head, "token_embd.weight");
  if (embeddings != nullptr && (embeddings->shape.size() < 2 || embeddings->shape[1] != vocabulary_size(head)))
    reject_damaged_head(head, "tensor \"token_embd.weight\" does not have one row per token");
  if (ids != nullptr && find_tensor(head, "output.weight") == nullptr)
    reject_damaged_head(head, "tensor \"output.weight\" is missing");
}

namespace {

void check_eagle3(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target) {
  check_target_layers(head, target);
  check_width(head, target, hyperparameter(head, "target_hidden_size"));
  if (hyperparameter(head, "block_count") != 1) {
    reject_damaged_head(head, "metadata \"eagle3.block_count\" is " +
                                  std::to_string(hyperparameter(head, "block_count")) + ", expected 1");
  }
  check_own_vocabulary(head);
  const bool uses_targets =
      find_tensor(head, "token_embd.weight") == nullptr || find_tensor(head, "output.weight") == nullptr;
  if (uses_targets) check_width(head, target, hyperparameter(head, "embedding_length"));
}

// Checks a number of the head's file that must equal the target's.
void check_same(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target, const std::string& what,
                std::uint64_t own, std::uint64_t other, const std::string& remedy) {
  if (own == other) return;
  reject_head(head, "is for another target: its " + what + " is " + std::to_string(own) + ", that of " +
                        target.front().path + " is " + std::to_string(other) + remedy);
}

void check_mtp(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target) {
  const std::string remedy = ". Use the head that was made for this target";
  const OwnHeadInfo layers = own_head(head);
  if (!layers.problem.empty()) throw ModelError(head.front().path + ": " + layers.problem);
  const std::string architecture = architecture_of(head), of_target = architecture_of(target);
  if (architecture != of_target) {
    reject_head(head, "is for architecture " + printable(architecture) + "; that of " + target.front().path + " is " +
                          printable(of_target) + remedy);
  }
  for (const char* name : {"embedding_length", "attention.head_count", "attention.key_length"}) {
    check_same(head, target, name, hyperparameter(head, name), hyperparameter(target, name), remedy);
  }
}

// Whether each layer has a sliding window; empty if the file does not say so.
std::vector<bool> windows(const std::vector<GgufFile>& parts) {
  const GgufArray* pattern = parts.front().array(architecture_of(parts) + ".attention.sliding_window_pattern");
  if (pattern == nullptr || pattern->count != hyperparameter(parts, "block_count")) return {};
  std::vector<bool> result;
  for (const GgufValue& value : pattern->elements()) {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) return {};
    result.push_back(*boolean);
  }
  return result;
}

// llama.cpp lets layers with a sliding window attend to the cache of the target's last but one layer, and the others to
// that of its last layer, without checking either.
void check_assistant(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target) {
  const std::string& target_path = target.front().path;
  const std::string remedy = ". Use the assistant that was made for this target", of_target = architecture_of(target);
  if (of_target != "gemma4")
    reject_head(head, "is for a Gemma 4 model; " + target_path + " is " + printable(of_target) + remedy);
  const std::uint64_t layers = hyperparameter(head, "block_count");
  if (hyperparameter(head, "nextn_predict_layers") != layers) {
    reject_damaged_head(head, "metadata \"gemma4-assistant.nextn_predict_layers\" is not the number of layers, " +
                                  std::to_string(layers));
  }
  const std::vector<bool> own = windows(head);
  std::vector<bool> others = windows(target);
  others.resize(others.size() - std::min<std::size_t>(others.size(), hyperparameter(target, "nextn_predict_layers")));
  if (own.empty()) {
    reject_damaged_head(
        head,
        "metadata \"gemma4-assistant.attention.sliding_window_pattern\" is not a list of Booleans, one for each layer");
  }
  if (others.size() < 2 || !others[others.size() - 2] || others.back()) {
    reject_head(head,
                "reads the keys and values of a layer with a sliding window and of one without; the last two of " +
                    target_path + " are not such layers" + remedy);
  }
  const auto check = [&](const std::string& what, std::uint64_t read, std::uint64_t kept) {
    check_same(head, target, what, read, kept, remedy);
  };
  check("embedding_length_out", hyperparameter(head, "embedding_length_out"),
        hyperparameter(target, "embedding_length"));
  check("attention.sliding_window", hyperparameter(head, "attention.sliding_window"),
        hyperparameter(target, "attention.sliding_window"));
  const CacheShape read = CacheShape::of(head.front()), kept = CacheShape::of(target.front());
  for (std::size_t layer = 0; layer < own.size(); ++layer) {
    const std::size_t of = others.size() - (own[layer] ? 2 : 1);
    const auto width = own[layer] ? &CacheShape::windowed : &CacheShape::full;
    const std::string suffix = own[layer] ? "_swa" : "";
    check("attention.key_length" + suffix, (read.*width).key, (kept.*width).key);
    check("attention.value_length" + suffix, (read.*width).value, (kept.*width).value);
    check("attention.head_count_kv", read.heads[layer], kept.heads[of]);
  }
}

}  // namespace

const char* name(HeadKind kind) {
  switch (kind) {
    case HeadKind::eagle3:
      return "eagle3";
    case HeadKind::mtp:
      return "mtp";
    case HeadKind::assistant:
      return "assistant";
    case HeadKind::block:
      return "block";
    case HeadKind::other:
      return "other";
    default:
      return "none";
  }
}

HeadFile head_file(const std::vector<GgufFile>& parts) {
  const std::string architecture = architecture_of(parts);
  if (architecture == "eagle3") return {HeadKind::eagle3, "an EAGLE-3 head", target_layers(parts), ""};
  if (architecture == "dflash") {
    const BlockFile file = block_file(parts);
    const HeadKind kind = file.unsupported.empty() ? HeadKind::block : HeadKind::other;
    return {kind, file.name, target_layers(parts), file.unsupported};
  }
  if (architecture == "gemma4-assistant") return {HeadKind::assistant, "a Gemma 4 assistant", {}, ""};
  const bool is_mtp = hyperparameter(parts, "nextn_predict_layers") > 0 && !has_layer(parts, 0);
  if (is_mtp) return {HeadKind::mtp, "a drafting head (multi-token prediction layers)", {}, ""};
  return {};
}

void reject_head_alone(const std::vector<GgufFile>& parts) {
  const HeadFile head = head_file(parts);
  if (head.kind == HeadKind::none) return;
  const std::string text = parts.front().path + ": is " + head.name + " (architecture " +
                           printable(architecture_of(parts)) +
                           "), a drafting head for another model, not a whole model. ";
  if (head.kind == HeadKind::other) {
    throw ModelError(text + head.unsupported +
                     " are not supported: use a small model of the target's family as the draft, or \"suffix\"");
  }
  throw ModelError(text + "Give it as the draft, with its target");
}

void check_head_for(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target) {
  switch (head_file(head).kind) {
    case HeadKind::eagle3:
      return check_eagle3(head, target);
    case HeadKind::mtp:
      return check_mtp(head, target);
    case HeadKind::assistant:
      return check_assistant(head, target);
    case HeadKind::block:
      return check_block_drafter(head, target);
    default:
      return reject_head_alone(head);
  }
}

}  // namespace specdec
