// Whether models fit into memory, told from the headers of their files before anything is loaded.
#pragma once

#include <cstdint>

#include "engine/generator.h"

namespace specdec {

// What a generator keeps in memory, in bytes. The weights are mapped files (unless options.use_mmap is false); if they do not all
// stay in memory, every pass reads them from disk again. The models' scratch space comes on top: little, as long as the models are not
// tiny.
struct MemoryNeed {
  std::uint64_t weights = 0;  // of target and draft
  std::uint64_t caches = 0;   // keys and values of full contexts
  std::uint64_t total() const { return weights + caches; }
};

// Throws ModelError for files that are no models.
MemoryNeed memory_need(const GeneratorOptions& options);

// Bytes of all parts of a model.
std::uint64_t model_bytes(const std::string& path);

}  // namespace specdec
