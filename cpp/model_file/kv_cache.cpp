#include "model_file/kv_cache.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "gguf/gguf_file.h"
#include "model_file/encoder.h"

namespace specdec {
namespace {

// The key's value is one number for all layers or one per layer.
std::vector<std::uint64_t> per_layer(const GgufFile& file, const std::string& key,
                                     std::vector<std::uint64_t> otherwise) {
  if (const auto one = file.integer(key)) return std::vector<std::uint64_t>(otherwise.size(), *one);
  const GgufArray* array = file.array(key);
  if (array == nullptr) return otherwise;
  std::vector<std::uint64_t> result(otherwise.size(), 0);
  const std::vector<GgufValue> values = array->elements(result.size());
  std::transform(values.begin(), values.end(), result.begin(), [](const GgufValue& value) -> std::uint64_t {
    if (const auto* natural = std::get_if<std::uint64_t>(&value)) return *natural;
    const auto* whole = std::get_if<std::int64_t>(&value);
    return whole == nullptr || *whole < 0 ? 0 : static_cast<std::uint64_t>(*whole);
  });
  return result;
}

// llama_hparams::n_embd_r() and n_embd_s() of llama.cpp: the latest inputs of a convolution, and the state proper.
template <class Integer>
std::uint64_t recurrent_numbers(std::uint64_t heads, const Integer& integer) {
  const std::uint64_t width = integer("embedding_length");
  const std::uint64_t kernel = integer("ssm.conv_kernel"), before = kernel > 0 ? kernel - 1 : 0;
  if (const std::uint64_t wkv = integer("wkv.head_size")) return width * (2 + wkv);
  if (const std::uint64_t convolution = integer("shortconv.l_cache")) return width * (convolution - 1);
  if (const std::uint64_t kda = integer("kda.head_dim")) return heads * kda * (3 * before + kda);
  const std::uint64_t inner = integer("ssm.inner_size"), state = integer("ssm.state_size");
  return before * (inner + 2 * integer("ssm.group_count") * state) + inner * state;
}

// Leaves room for sums.
constexpr std::uint64_t most_bytes = UINT64_MAX / 4;
std::uint64_t product(std::uint64_t a, std::uint64_t b) { return b > 0 && a > most_bytes / b ? most_bytes : a * b; }

const KvTypeRow& row_of(KvType type) {
  return *std::find_if(std::begin(kv_types), std::end(kv_types),
                       [&](const KvTypeRow& row) { return row.type == type; });
}

}  // namespace

KvType parse_kv_type(const std::string& name) {
  std::string known;
  for (const KvTypeRow& row : kv_types) {
    if (name == row.name) return row.type;
    known += std::string(known.empty() ? "" : " or ") + row.name;
  }
  throw std::invalid_argument("kv_type is \"" + name + "\"; it must be " + known);
}

const char* name(KvType type) { return row_of(type).name; }

int ggml_type_of(KvType type) { return row_of(type).ggml_type; }

std::uint64_t block_size(KvType type) { return find_weight_type(ggml_type_of(type))->columns; }

CacheShape CacheShape::of(const GgufFile& first_part) {
  const std::string architecture = first_part.string("general.architecture").value_or(""), prefix = architecture + ".";
  const auto integer = [&](const char* name) { return first_part.integer(prefix + name).value_or(0); };
  const auto size = [&](const char* name, std::uint64_t otherwise) {
    return integer(name) > 0 ? integer(name) : otherwise;
  };
  const std::vector<std::uint64_t> none(integer("block_count"), 0);
  const std::vector<std::uint64_t> query_heads = per_layer(first_part, prefix + "attention.head_count", none);
  const std::uint64_t first = query_heads.empty() ? 0 : query_heads.front();
  const std::uint64_t head_size = first > 0 ? integer("embedding_length") / first : 0;
  CacheShape shape;
  shape.full = {size("attention.key_length", head_size), size("attention.value_length", head_size)};
  shape.windowed = {size("attention.key_length_swa", shape.full.key),
                    size("attention.value_length_swa", shape.full.value)};
  if (!is_encoder(architecture)) shape.heads = per_layer(first_part, prefix + "attention.head_count_kv", query_heads);
  shape.state = recurrent_numbers(first, integer);
  return shape;
}

std::uint64_t CacheShape::bytes(std::uint64_t tokens, KvType type, std::size_t layers) const {
  const auto end = heads.begin() + static_cast<std::ptrdiff_t>(std::min(layers, heads.size()));
  const WeightType& stored = *find_weight_type(ggml_type_of(type));
  const std::uint64_t numbers = std::max(full.key, windowed.key) + std::max(full.value, windowed.value);
  const std::uint64_t per_token =
      std::accumulate(heads.begin(), end, std::uint64_t{0}) * numbers * stored.bytes / stored.columns;
  return product(per_token, tokens);
}

std::uint64_t CacheShape::bytes_of_last(std::uint64_t tokens, KvType type, std::size_t layers) const {
  CacheShape last = *this;
  last.heads.erase(last.heads.begin(), last.heads.end() - static_cast<std::ptrdiff_t>(std::min(layers, heads.size())));
  return last.bytes(tokens, type);
}

std::uint64_t CacheShape::state_bytes(std::uint64_t count) const {
  return product(product(product(state, sizeof(float)), heads.size()), count);
}

}  // namespace specdec
