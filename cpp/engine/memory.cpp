#include "engine/memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {
namespace {

std::uint64_t total_size(const std::vector<GgufFile>& parts) {
  std::uint64_t bytes = 0;
  for (const GgufFile& part : parts) bytes += part.file_size;
  return bytes;
}

// "<architecture>.<name>"; some models give one number, some one per layer: then their sum over `layers`.
std::uint64_t over_layers(const GgufFile& file, const std::string& key, std::uint64_t layers, std::uint64_t otherwise) {
  if (const auto one = file.integer(key)) return *one * layers;
  const GgufArray* array = file.array(key);
  if (array == nullptr) return otherwise * layers;
  std::uint64_t sum = 0;
  for (const GgufValue& value : array->elements()) {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) sum += *number;
    if (const auto* number = std::get_if<std::int64_t>(&value)) sum += static_cast<std::uint64_t>(std::max<std::int64_t>(0, *number));
  }
  return sum;
}

// At most: layers without attention, or with shared or compressed keys, take less.
std::uint64_t cache_bytes_per_token(const GgufFile& file, KvType type) {
  const std::string prefix = file.string("general.architecture").value_or("") + ".";
  const auto integer = [&](const char* name) { return file.integer(prefix + name).value_or(0); };
  const std::uint64_t layers = integer("block_count"), heads = integer("attention.head_count");
  const std::uint64_t head_size = heads > 0 ? integer("embedding_length") / heads : 0;
  const std::uint64_t key = file.integer(prefix + "attention.key_length").value_or(head_size);
  const std::uint64_t value = file.integer(prefix + "attention.value_length").value_or(head_size);
  return over_layers(file, prefix + "attention.head_count_kv", layers, heads) * cache_bytes(key + value, type);
}

std::uint64_t trained_context(const GgufFile& file) {
  return file.integer(file.string("general.architecture").value_or("") + ".context_length").value_or(default_context);
}

}  // namespace

MemoryNeed memory_need(const GeneratorOptions& options) {
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  std::uint64_t context = static_cast<std::uint64_t>(options.n_ctx);
  if (context == 0) context = std::min<std::uint64_t>(default_context, trained_context(target.front()));
  const KvType type = parse_kv_type(options.kv_type);
  const auto sequences = static_cast<std::uint64_t>(std::max(1, options.max_sequences));
  MemoryNeed need{total_size(target), sequences * cache_bytes_per_token(target.front(), type) * context};
  if (options.draft.empty() || options.draft == "ngram") return need;
  const std::vector<GgufFile> draft = GgufFile::read_parts(options.draft);
  need.weights += total_size(draft);
  need.caches += sequences * cache_bytes_per_token(draft.front(), type) * std::min(context, trained_context(draft.front()));
  return need;
}

std::uint64_t model_bytes(const std::string& path) { return total_size(GgufFile::read_parts(path)); }

}  // namespace specdec
