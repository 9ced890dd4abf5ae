#include "engine/memory.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "base/index.h"
#include "engine/resolved_draft.h"
#include "gguf/gguf_file.h"
#include "model_file/head_file.h"
#include "model_file/kv_cache.h"
#include "model_file/own_head.h"
#include "platform/memory.h"

namespace specdec {

int trained_context(const std::vector<GgufFile>& model) {
  const GgufFile& file = model.front();
  const std::string key = file.string("general.architecture").value_or("") + ".context_length";
  return static_cast<int>(std::min<std::uint64_t>(file.integer(key).value_or(default_context), INT_MAX));
}

int default_context_of(const std::vector<GgufFile>& target) {
  return std::min(default_context, trained_context(target));
}

CacheNeed cache_need(const GeneratorOptions& options, int context, const std::vector<GgufFile>& target,
                     const std::vector<GgufFile>& draft) {
  const KvType type = parse_kv_type(options.kv_type);
  const auto sequences = static_cast<std::uint64_t>(std::max(1, options.max_sequences));
  const auto cells = [&](int tokens) { return sequences * static_cast<std::uint64_t>(tokens); };
  const auto whole = [&](const std::vector<GgufFile>& model, int tokens) {
    const CacheShape shape = CacheShape::of(model.front());
    return shape.bytes(cells(tokens), type) + shape.state_bytes(sequences);
  };
  const auto of_head_layers = [&](const std::vector<GgufFile>& model, const OwnHeadInfo& head) {
    return CacheShape::of(model.front()).bytes_of_last(cells(context), type, idx(head.num_layers));
  };
  // Each layer of a head has a context of its own, with a cache for all of them.
  const auto of_head = [&](const std::vector<GgufFile>& model, const OwnHeadInfo& head) {
    return static_cast<std::uint64_t>(head.num_layers) * of_head_layers(model, head);
  };
  CacheNeed need{whole(target, context)};
  if (const OwnHeadInfo own = own_head(target); own.problem.empty()) {
    need.target -= of_head_layers(target, own);
    if (draft.empty() && options.num_draft_tokens != 0) need.target += of_head(target, own);
  }
  if (draft.empty()) return need;
  switch (head_file(draft).kind) {
    case HeadKind::none:
      need.draft = whole(draft, std::min(context, draft_window(options, context, trained_context(draft))));
      break;
    case HeadKind::mtp:
      need.draft = of_head(draft, own_head(draft));
      break;
    case HeadKind::assistant:  // reads the target's cache
      break;
    default:
      need.draft = whole(draft, context);
  }
  return need;
}

int draft_window(const GeneratorOptions& options, int context, int draft_trained_context) {
  if (options.draft_window) return *options.draft_window;
  const int usable = context <= draft_trained_context ? draft_trained_context : draft_trained_context / 2;
  return std::clamp(usable, 1, default_draft_window);
}

int longest_context(const GeneratorOptions& options, const std::vector<GgufFile>& target,
                    const std::vector<GgufFile>& draft, std::uint64_t available) {
  constexpr int step = 256;
  const int trained = trained_context(target);
  const std::uint64_t weights = total_file_size(target) + total_file_size(draft);
  // Copies of weights, and the scratch memory of passes over long texts.
  const std::uint64_t reserved = weights + weights / 8 + available / 8;
  const auto fits = [&](int context) {
    const CacheNeed need = cache_need(options, context, target, draft);
    const bool can_count = static_cast<std::int64_t>(context) * options.max_sequences <= INT32_MAX;  // cells
    return can_count && (available == 0 || reserved + need.target + need.draft <= available);
  };
  int low = std::min(step, trained), high = trained;
  if (fits(high)) return high;
  while (high - low > step) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return std::max(std::min(step, trained), low / step * step);
}

MemoryNeed memory_of(const GeneratorOptions& options, int context, const std::vector<GgufFile>& target,
                     const std::vector<GgufFile>& draft) {
  const CacheNeed caches = cache_need(options, context, target, draft);
  return {total_file_size(target) + total_file_size(draft), caches.target + caches.draft};
}

MemoryNeed memory_need(const GeneratorOptions& options) {
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  GeneratorOptions local = options;
  local.download = nullptr;
  const std::vector<GgufFile> draft = resolve_draft(local, target).parts;
  int context = options.n_ctx.value_or(default_context_of(target));
  if (context == 0) context = longest_context(options, target, draft, available_memory());
  return memory_of(options, context, target, draft);
}

std::uint64_t model_bytes(const std::string& path) { return total_file_size(GgufFile::read_parts(path)); }

}  // namespace specdec
