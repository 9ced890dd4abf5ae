#include "model_file/block_file.h"

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "gguf/problem.h"
#include "model_file/head_checks.h"

namespace specdec {
namespace {

constexpr int usual_block_size = 16;  // for files that do not state it, as in llama.cpp
constexpr int most_places = 1024;
constexpr const char* mask_key = "tokenizer.ggml.mask_token_id";

std::optional<bool> flag(const std::vector<GgufFile>& parts, const char* key) { return parts.front().boolean(key); }

int block_size(const std::vector<GgufFile>& parts) {
  const GgufFile& file = parts.front();
  if (file.find("dflash.block_size") == nullptr) return usual_block_size;
  const std::uint64_t size = file.integer("dflash.block_size").value_or(0);
  return size > most_places ? 0 : static_cast<int>(size);
}

Token mask_token(const std::vector<GgufFile>& parts) {
  const std::optional<std::uint64_t> id = parts.front().integer(mask_key);
  return id && *id < vocabulary_size(parts) ? static_cast<Token>(*id) : -1;
}

void check_heads(const std::vector<GgufFile>& drafter) {
  const std::uint64_t width = hyperparameter(drafter, "embedding_length");
  const std::uint64_t heads = hyperparameter(drafter, "attention.head_count");
  const auto length = [&](const char* name) {
    const std::uint64_t stated = hyperparameter(drafter, name);
    return stated != 0 || heads == 0 ? stated : width / heads;
  };
  const std::uint64_t key = length("attention.key_length"), value = length("attention.value_length");
  if (key == value && key != 0) return;
  reject_damaged_head(drafter, "metadata: its heads are " + std::to_string(key) + " and " + std::to_string(value) +
                                   " (keys and values) wide, expected the same");
}

}  // namespace

BlockFile block_file(const std::vector<GgufFile>& parts) {
  BlockFile file;
  const auto has = [&](const char* tensor) { return find_tensor(parts, tensor) != nullptr; };
  file.has_bias = has("markov_w1.weight");
  const bool selects = has("selector_hidden.weight");
  file.name = selects ? "a DFlash2 block drafter" : file.has_bias ? "a DSpark block drafter" : "a DFlash block drafter";
  if (selects) file.unsupported = "drafters with a selector (DFlash2)";
  if (hyperparameter(parts, "hyper_connection.count") > 0) file.unsupported = "drafters of DeepSeek V4";
  file.fills_anchor = file.has_bias && flag(parts, "dflash.sample_from_anchor").value_or(true);
  file.is_causal = flag(parts, "dflash.attention.causal").value_or(false);
  file.block_size = block_size(parts);
  if (file.num_places() < 1) file.block_size = 0;
  file.mask = mask_token(parts);
  return file;
}

void check_block_drafter(const std::vector<GgufFile>& drafter, const std::vector<GgufFile>& target) {
  const BlockFile file = block_file(drafter);
  if (file.block_size == 0) {
    reject_damaged_head(drafter, "metadata \"dflash.block_size\" is not a number of tokens from " +
                                     std::string(file.fills_anchor ? "1" : "2") + " to " + std::to_string(most_places));
  }
  if (file.mask < 0)
    reject_damaged_head(drafter, std::string("metadata \"") + mask_key + "\" is not a token of the vocabulary");
  check_target_layers(drafter, target);
  check_width(drafter, target, hyperparameter(drafter, "embedding_length"));
  if (hyperparameter(drafter, "block_count") == 0) reject_damaged_head(drafter, "metadata \"dflash.block_count\" is 0");
  check_heads(drafter);
  check_own_vocabulary(drafter);
}

}  // namespace specdec
