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

// With the draft that resolve_draft() chooses, except one to download. Throws as that does, and ModelError for files
// that are not models.
MemoryNeed memory_need(const GeneratorOptions& options);

// Tokens of context where none is asked for: what the target was trained with, at most default_context.
int default_context_of(const std::vector<GgufFile>& target);

// Bytes of the caches of a Generator, by the headers of its models; draft: empty if there is none. context: in place of
// options.n_ctx.
struct CacheNeed {
  std::uint64_t target = 0, draft = 0;
};
CacheNeed cache_need(const GeneratorOptions& options, int context, const std::vector<GgufFile>& target,
                     const std::vector<GgufFile>& draft);

// The tokens that a draft model reads at most: options.draft_window, or the default, within what it was trained with. A
// draft that was trained with less than the context of its target has to read a window again when it has no positions
// left: half of those are its window then.
int draft_window(const GeneratorOptions& options, int context, int draft_trained_context);

// By the header of the model's first part; default_context if that does not say.
int trained_context(const std::vector<GgufFile>& model);

// The longest context, up to what the target was trained with, that fits into the memory that is available before the
// models are loaded. At least 256 tokens.
int longest_context(const GeneratorOptions& options, const std::vector<GgufFile>& target,
                    const std::vector<GgufFile>& draft, std::uint64_t available);

// Bytes of all parts of a model.
std::uint64_t model_bytes(const std::string& path);

}  // namespace specdec
