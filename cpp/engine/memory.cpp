#include "engine/memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "model_file/kv_cache.h"

namespace specdec {
namespace {

std::uint64_t trained_context(const GgufFile& file) {
  return file.integer(file.string("general.architecture").value_or("") + ".context_length").value_or(default_context);
}

}  // namespace

MemoryNeed memory_need(const GeneratorOptions& options) {
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  const auto context = static_cast<std::uint64_t>(options.n_ctx.value_or(default_context_of(target.front())));
  const KvType type = parse_kv_type(options.kv_type);
  const auto sequences = static_cast<std::uint64_t>(std::max(1, options.max_sequences));
  const auto caches = [&](const GgufFile& file, std::uint64_t tokens) {
    const CacheShape shape = CacheShape::of(file);
    return shape.bytes(sequences * tokens, type) + shape.state_bytes(sequences);
  };
  MemoryNeed need{total_file_size(target), caches(target.front(), context)};
  const std::string* path = draft_path(options.draft);
  if (path == nullptr) return need;
  const std::vector<GgufFile> draft = GgufFile::read_parts(*path);
  need.weights += total_file_size(draft);
  need.caches += caches(draft.front(), std::min(context, trained_context(draft.front())));
  return need;
}

int default_context_of(const GgufFile& target) {
  return static_cast<int>(std::min<std::uint64_t>(default_context, trained_context(target)));
}

std::uint64_t model_bytes(const std::string& path) { return total_file_size(GgufFile::read_parts(path)); }

}  // namespace specdec
