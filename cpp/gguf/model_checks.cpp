#include "gguf/model_checks.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "gguf/problem.h"

namespace specdec {
namespace {

using std::to_string;

constexpr std::uint64_t max_layers = 512;        // LLAMA_MAX_LAYERS
constexpr std::uint64_t max_experts = 1024;      // LLAMA_MAX_EXPERTS
constexpr std::uint64_t max_token_bytes = 2048;  // common vocabularies have at most a few hundred
constexpr const char* tokens_key = "tokenizer.ggml.tokens";

// A hyperparameter "<architecture>.<name>": a whole number or, in some models, an array with a number for each layer.
struct Hyperparameter {
  const char* name;
  std::uint64_t low, high;
};
constexpr Hyperparameter hyperparameters[] = {
    {"block_count", 1, max_layers},
    {"context_length", 1, INT32_MAX},  // llama.cpp counts tokens in 32 bits
    {"embedding_length", 1, 1 << 20},
    {"embedding_length_out", 0, 1 << 20},
    {"embedding_length_per_layer_input", 0, 1 << 20},
    {"feed_forward_length", 0, 1 << 24},
    {"leading_dense_block_count", 0, max_layers},
    {"vocab_size", 0, 1 << 24},  // without a tokenizer, it allocates this many tokens unchecked
    {"attention.head_count", 0, 1 << 16},
    {"attention.head_count_kv", 0, 1 << 16},
    {"attention.key_length", 1, 1 << 16},
    {"attention.key_length_swa", 1, 1 << 16},
    {"attention.key_length_mla", 1, 1 << 16},
    {"attention.value_length", 1, 1 << 16},
    {"attention.value_length_swa", 1, 1 << 16},
    {"attention.value_length_mla", 1, 1 << 16},
    {"attention.kv_lora_rank", 0, 1 << 20},
    {"attention.q_lora_rank", 0, 1 << 20},
    {"attention.sliding_window", 0, 1 << 30},
    {"attention.group_norm_groups", 0, 1 << 16},
    {"attention.compress_ratios", 0, 1 << 16},  // tokens of a block; llama.cpp allocates this many cells for each
    {"expert_count", 0, max_experts},
    {"expert_used_count", 0, max_experts},
    {"expert_shared_count", 0, max_experts},
    {"expert_group_count", 0, max_experts},
    {"expert_group_used_count", 0, max_experts},
    {"ssm.conv_kernel", 0, 1 << 10},
    {"ssm.inner_size", 0, 1 << 24},
    {"ssm.state_size", 0, 1 << 20},
    {"ssm.time_step_rank", 0, 1 << 20},
    {"ssm.group_count", 0, 1 << 16},
    {"wkv.head_size", 1, 1 << 16},
    {"shortconv.l_cache", 1, 1 << 10},
    {"token_shift_count", 0, 8},
    {"full_attention_interval", 1, max_layers},  // one layer in this many; llama.cpp divides by it
};

[[noreturn]] void reject(const GgufFile& file, const std::string& key, const std::string& problem) {
  fail_file(file.path, "metadata " + shown(key) + " " + problem, convert_again);
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::optional<std::uint64_t> natural(const GgufValue& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

// The number as text for messages: "12", "-1".
std::string number_text(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return to_string(*number);
  return to_string(std::get<std::uint64_t>(value));
}

void check_range(const GgufFile& file, const std::string& key, const GgufValue& value, std::uint64_t low,
                 std::uint64_t high) {
  const std::string expected = ", expected " + to_string(low) + " to " + to_string(high);
  if (!std::holds_alternative<std::uint64_t>(value) && !std::holds_alternative<std::int64_t>(value)) {
    reject(file, key, "is not a whole number" + expected);
  }
  const std::optional<std::uint64_t> number = natural(value);
  if (!number || *number < low || *number > high) reject(file, key, "is " + number_text(value) + expected);
}

// The value in its range, or `missing`.
std::uint64_t checked(const GgufFile& file, const std::string& key, std::uint64_t low, std::uint64_t high,
                      std::uint64_t missing) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return missing;
  check_range(file, key, *value, low, high);
  return *natural(*value);
}

void check_ranges(const GgufFile& file, const std::string& prefix) {
  for (const Hyperparameter& h : hyperparameters) {
    const std::string key = prefix + h.name;
    const GgufValue* value = file.find(key);
    if (value == nullptr) continue;
    const auto* layers = std::get_if<GgufArray>(value);
    if (layers == nullptr) {
      check_range(file, key, *value, h.low, h.high);
      continue;
    }
    if (layers->count > max_layers)
      reject(file, key, "has " + to_string(layers->count) + " elements, expected one for each layer");
    for (const GgufValue& one : layers->elements()) check_range(file, key, one, h.low, h.high);
  }
  // Layers that predict further tokens come after those that llama.cpp runs; an assistant has only such layers.
  const std::uint64_t others = prefix == "gemma4-assistant." ? 0 : 1;
  checked(file, prefix + "nextn_predict_layers", 0, file.integer(prefix + "block_count").value_or(max_layers) - others,
          0);
}

// The largest element of an array, or the number itself.
std::uint64_t largest(const GgufFile& file, const std::string& key) {
  const GgufArray* layers = file.array(key);
  if (layers == nullptr) return file.integer(key).value_or(0);
  std::uint64_t most = 0;
  for (const GgufValue& one : layers->elements(max_layers)) most = std::max(most, natural(one).value_or(0));
  return most;
}

// Several query heads may share keys and values, but not the other way round.
void check_heads(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + "attention.head_count_kv";
  const std::uint64_t heads = largest(file, prefix + "attention.head_count"), kv_heads = largest(file, key);
  if (heads > 0 && kv_heads > heads)
    reject(file, key, "is " + to_string(kv_heads) + " with " + to_string(heads) + " query heads");
}

// The size of a key; 0: there is no attention.
std::uint64_t head_size(const GgufFile& file, const std::string& prefix) {
  const std::uint64_t heads = largest(file, prefix + "attention.head_count");
  const std::uint64_t of_width = heads == 0 ? 0 : largest(file, prefix + "embedding_length") / heads;
  return file.integer(prefix + "attention.key_length").value_or(of_width);
}

// Rotated dimensions come in pairs and lie inside a head; ggml counts them in steps of two from an unchecked signed
// number.
void check_rotated_dimensions(const GgufFile& file, const std::string& prefix) {
  const std::uint64_t head = head_size(file, prefix);
  if (head == 0) return;  // no attention: nothing is rotated
  const struct {
    const char* key;
    std::uint64_t head;
  } counts[] = {{"rope.dimension_count", head},
                {"rope.dimension_count_swa", file.integer(prefix + "attention.key_length_swa").value_or(head)}};
  for (const auto& count : counts) {
    const std::string key = prefix + count.key;
    if (file.find(key) == nullptr) continue;
    if (checked(file, key, 2, count.head, 2) % 2 != 0) reject(file, key, "is odd; dimensions are rotated in pairs");
  }
}

// ggml sums over the heads of RWKV in steps of up to 64 numbers (AVX-512) and reads past heads of other sizes.
void check_wkv_heads(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + "wkv.head_size";
  if (file.find(key) == nullptr) return;
  const std::uint64_t size = checked(file, key, 1, 1 << 16, 0),
                      width = file.integer(prefix + "embedding_length").value_or(size);
  if (size % 64 != 0) reject(file, key, "is " + to_string(size) + ", expected a multiple of 64");
  if (width % size != 0)
    reject(file, key, "is " + to_string(size) + ", which does not divide the width " + to_string(width));
}

// The number, or the first element of an array; 0 if it is missing.
std::uint64_t first(const GgufFile& file, const std::string& key) {
  const GgufArray* elements = file.array(key);
  if (elements == nullptr) return file.integer(key).value_or(0);
  return elements->count == 0 ? 0 : natural(elements->elements(1).front()).value_or(0);
}

// Hyperparameters that these architectures need although llama.cpp treats them as optional and then divides by them or
// aborts. The width of an expert may replace the number of experts used.
struct Need {
  const char* name;
  const char* instead;
  std::vector<std::string_view> architectures;
};
const std::vector<Need>& needs() {
  static const std::vector<Need> table = {
      {"attention.head_count", nullptr, {"olmo2", "phimoe", "gemma2", "gemma3", "deepseek2", "deepseek2-ocr"}},
      {"expert_used_count",
       "expert_feed_forward_length",
       {"qwen2moe", "qwen3moe", "qwen3next", "qwen3vlmoe", "qwen35moe", "qwen4exp", "glm4moe", "grovemoe", "llada-moe",
        "mellum", "rnd1"}},
      {"rope.dimension_sections", nullptr, {"paddleocr"}},
  };
  return table;
}

void check_needs(const GgufFile& file, const std::string& architecture) {
  const std::string prefix = architecture + ".";
  for (const Need& need : needs()) {
    if (std::find(need.architectures.begin(), need.architectures.end(), architecture) == need.architectures.end())
      continue;
    if (first(file, prefix + need.name) > 0 || (need.instead != nullptr && first(file, prefix + need.instead) > 0))
      continue;
    reject(file, prefix + need.name, "is missing or 0");
  }
}

// Checks the sections of multi-dimensional positions. ggml needs one of the first three, divides by the sum, and aborts
// the process in the middle of a pass if the sum exceeds the head.
void check_rope_sections(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + "rope.dimension_sections";
  if (file.find(key) == nullptr) return;
  const GgufArray* sections = file.array(key);
  if (sections == nullptr || sections->count > 4) reject(file, key, "is not an array of up to 4 numbers");
  std::uint64_t sum = 0, first_three = 0;
  int index = 0;
  for (const GgufValue& section : sections->elements()) {
    check_range(file, key, section, 0, 1 << 16);
    sum += natural(section).value_or(0);
    if (index++ < 3) first_three = sum;
  }
  if (first_three == 0) reject(file, key, "has no section of at least one dimension");
  const std::uint64_t head = head_size(file, prefix);
  const std::uint64_t rotated = file.integer(prefix + "rope.dimension_count").value_or(head);
  const std::uint64_t in_windows = file.integer(prefix + "rope.dimension_count_swa").value_or(rotated);
  const std::uint64_t most = std::min(rotated, in_windows);
  if (head > 0 && sum > most) {
    reject(file, key,
           "adds up to " + to_string(sum) + " dimensions, more than the " + to_string(most) + " that are rotated");
  }
}

void check_experts(const GgufFile& file, const std::string& prefix) {
  const std::uint64_t experts = checked(file, prefix + "expert_count", 0, max_experts, 0);
  const std::uint64_t used = largest(file, prefix + "expert_used_count");
  if (used > experts || (experts > 0 && used == 0)) {
    reject(file, prefix + "expert_used_count", "is " + to_string(used) + " of " + to_string(experts) + " experts");
  }
  const std::string key = prefix + "expert_group_count";
  const std::uint64_t groups = checked(file, key, 0, experts == 0 ? 0 : experts - 1, 0);
  if (groups <= 1) return;
  if (experts % groups != 0)
    reject(file, key, "is " + to_string(groups) + ", which does not divide " + to_string(experts) + " experts");
  const std::uint64_t groups_used = file.integer(prefix + "expert_group_used_count").value_or(0);
  if (groups_used == 0 || groups_used >= groups)
    reject(file, prefix + "expert_group_used_count", "is not between 1 and the number of groups");
}

// One layer in this many has experts; llama.cpp divides by the number. In llama4, 0 means no experts.
void check_expert_step(const GgufFile& file, const std::string& prefix) {
  if (prefix == "ernie4_5-moe.") checked(file, prefix + "interleave_moe_layer_step", 1, max_layers, 1);
}

void check_rope_scaling(const GgufFile& file, const std::string& prefix) {
  const std::string key = prefix + "rope.scaling.type";
  const auto type = file.string(key);
  if (!type || *type == "none" || *type == "linear" || *type == "yarn" || *type == "longrope") return;
  reject(file, key, "is " + shown(*type) + ", expected none, linear, yarn or longrope");
}

// The epsilons of norms, which ggml checks in the middle of a pass.
void check_epsilons(const GgufFile& file) {
  for (const GgufEntry& entry : file.metadata) {
    const auto* value = std::get_if<double>(&entry.value);
    if (value == nullptr || !ends_with(entry.key, "epsilon")) continue;
    if (!std::isfinite(*value) || *value < 0.0) reject(file, entry.key, "is not a number of at least 0");
  }
}

std::uint64_t length_at(const char* at) {
  std::uint64_t length;
  std::memcpy(&length, at, sizeof length);
  return length;
}

// Calls see(text, id) for every token.
template <class See>
void for_each_token(const GgufFile& file, See see) {
  const GgufArray* tokens = file.array(tokens_key);
  if (tokens == nullptr || tokens->type != GgufType::string) return;
  const char* at = tokens->bytes.data();
  for (std::uint64_t id = 0; id < tokens->count; ++id) {
    const std::string_view text(at + 8, length_at(at));
    see(text, id);
    at += 8 + text.size();
  }
}

// llama.cpp's tries recurse once for each byte of a token.
void check_tokens_are_short(const GgufFile& file) {
  for_each_token(file, [&](std::string_view text, std::uint64_t id) {
    if (text.size() <= max_token_bytes) return;
    reject(file, tokens_key,
           "has " + to_string(text.size()) + " bytes for token " + to_string(id) + ", expected at most " +
               to_string(max_token_bytes));
  });
}

// llama.cpp renames empty texts, so any number of them is fine.
void check_tokens_differ(const GgufFile& file) {
  std::unordered_set<std::string_view> seen;
  for_each_token(file, [&](std::string_view text, std::uint64_t id) {
    if (!text.empty() && !seen.insert(text).second)
      reject(file, tokens_key, "has " + shown(std::string(text)) + " twice, again as token " + to_string(id));
  });
}

int hexadecimal_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

// The byte of an RWKV token whose text is one byte. Texts are escaped: \t, \n, \r, \xHH, and a backslash before any
// other character.
std::optional<std::uint8_t> single_rwkv_byte(std::string_view text) {
  if (text.size() == 1 && text[0] != '\\') return static_cast<std::uint8_t>(text[0]);
  if (text.size() == 2 && text[0] == '\\' && text[1] != 'x') {
    const char c = text[1];
    return static_cast<std::uint8_t>(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c);
  }
  if (text.size() != 4 || text[0] != '\\' || text[1] != 'x') return std::nullopt;
  const int high = hexadecimal_digit(text[2]), low = hexadecimal_digit(text[3]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

// llama.cpp's tokenizer loops for ever at a byte that begins tokens but is not a token itself.
void check_rwkv_bytes(const GgufFile& file) {
  if (file.string("tokenizer.ggml.model") != "rwkv") return;
  std::bitset<256> bytes;
  for_each_token(file, [&](std::string_view text, std::uint64_t) {
    if (const auto byte = single_rwkv_byte(text)) bytes.set(*byte);
  });
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    if (bytes[byte]) continue;
    constexpr const char* digits = "0123456789abcdef";
    reject(file, tokens_key,
           std::string("has no token for byte 0x") + digits[byte / 16] + digits[byte % 16] +
               ", which RWKV vocabularies need");
  }
}

// How files beside a model say what they are, with what to do instead of loading them.
struct OtherKind {
  const char *key, *value, *kind, *remedy;
};
constexpr const char* give_model = "give the file of the model itself";
constexpr const char* merge = "merge it into its model (llama.cpp's llama-export-lora), and give the result";
constexpr OtherKind other_kinds[] = {
    {"general.type", "adapter", "a LoRA adapter", merge},
    {"adapter.type", nullptr, "a LoRA adapter", merge},
    {"general.architecture", "controlvector", "a control vector", give_model},
    {"general.type", "mmproj", "the projector of a model that reads pictures or sound", give_model},
    {"general.architecture", "clip", "the projector of a model that reads pictures or sound", give_model},
    {"general.type", "imatrix", "an importance matrix, for quantizing a model", give_model},
    {"imatrix.chunk_count", nullptr, "an importance matrix, for quantizing a model", give_model},
    {"general.type", "vocab", "a vocabulary without a model", give_model},
};

const OtherKind* other_kind(const GgufFile& file) {
  for (const OtherKind& one : other_kinds) {
    if (one.value == nullptr ? file.find(one.key) != nullptr : file.string(one.key) == one.value) return &one;
  }
  return nullptr;
}

}  // namespace

std::string kind_beside_a_model(const GgufFile& file) {
  const OtherKind* kind = other_kind(file);
  return kind == nullptr ? "" : kind->kind;
}

void check_model_metadata(const GgufFile& file) {
  if (const OtherKind* kind = other_kind(file))
    fail_file(file.path, std::string("is ") + kind->kind + ", not a model", kind->remedy);
  const std::string architecture = file.string("general.architecture").value_or(""), prefix = architecture + ".";
  check_ranges(file, prefix);
  check_needs(file, architecture);
  check_experts(file, prefix);
  check_expert_step(file, prefix);
  check_heads(file, prefix);
  check_rotated_dimensions(file, prefix);
  check_rope_sections(file, prefix);
  check_wkv_heads(file, prefix);
  check_rope_scaling(file, prefix);
  check_epsilons(file);
  check_tokens_are_short(file);
  check_tokens_differ(file);
  check_rwkv_bytes(file);
}

}  // namespace specdec
