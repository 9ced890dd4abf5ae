// Estimates from file headers how much memory a Generator needs, before its models are loaded: their weights and, by
// model_file/kv_cache.h, their caches. What the system has available is in platform/memory.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "gguf/gguf_file.h"

namespace specdec {

// The memory of a generator, in bytes. Weights are mapped files (unless options.use_mmap is false); if they do not fit
// into memory, every pass reads them from disk again. The models' scratch memory is not included; it is small unless
// the models are tiny.
struct MemoryNeed {
  std::uint64_t weights = 0;  // of target and draft
  std::uint64_t caches = 0;   // keys and values of full contexts
  std::uint64_t total() const { return weights + caches; }
};

// draft: empty if there is none. context: used instead of options.n_ctx.
MemoryNeed memory_of(const GeneratorOptions& options, int context, const std::vector<GgufFile>& target,
                     const std::vector<GgufFile>& draft);

// Counts the draft that resolve_draft() chooses, but none that must be downloaded. Throws what resolve_draft() throws,
// and ModelError for files that are not models.
MemoryNeed memory_need(const GeneratorOptions& options);

// The context length, in tokens, if none is asked for: the target's training context, at most default_context.
int default_context_of(const std::vector<GgufFile>& target);

// Bytes of the caches of a Generator, from the headers of its models. draft: empty if there is none. context: used
// instead of options.n_ctx.
struct CacheNeed {
  std::uint64_t target = 0, draft = 0;
};
CacheNeed cache_need(const GeneratorOptions& options, int context, const std::vector<GgufFile>& target,
                     const std::vector<GgufFile>& draft);

// The most tokens that a draft model reads: options.draft_window or the default, limited by its training context. A
// draft trained with less than its target's context must read a window again when it runs out of positions; its window
// is then half of its training context.
int draft_window(const GeneratorOptions& options, int context, int draft_trained_context);

// From the header of the model's first part; default_context if that does not say.
int trained_context(const std::vector<GgufFile>& model);

// The longest context, up to the target's training context, that fits into `available` bytes, the memory available
// before the models are loaded. At least 256 tokens.
int longest_context(const GeneratorOptions& options, const std::vector<GgufFile>& target,
                    const std::vector<GgufFile>& draft, std::uint64_t available);

// Bytes of all parts of a model.
std::uint64_t model_bytes(const std::string& path);

}  // namespace specdec
