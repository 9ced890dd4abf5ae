// Estimates from file headers how much memory a Generator needs, before its models are loaded: their weights and, by
// model_file/kv_cache.h, their caches. What the system has available is in platform/memory.h.
#pragma once

#include <cstdint>

#include "engine/generator.h"

namespace specdec {

// The memory of a generator, in bytes. Weights are mapped files (unless options.use_mmap is false); if they do not fit
// into memory, every pass reads them from disk again. The models' scratch memory is not included; it is small unless
// the models are tiny.
struct MemoryNeed {
  std::uint64_t weights = 0;  // of target and draft
  std::uint64_t caches = 0;   // keys and values of full contexts
  std::uint64_t total() const { return weights + caches; }
};

// Throws ModelError for files that are not models.
MemoryNeed memory_need(const GeneratorOptions& options);

// Tokens of context where none is asked for: what the target was trained with, at most default_context.
int default_context_of(const GgufFile& target);

// Bytes of all parts of a model.
std::uint64_t model_bytes(const std::string& path);

}  // namespace specdec
