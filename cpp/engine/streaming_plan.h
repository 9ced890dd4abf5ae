// Decides from file headers whether a target's weights fit into memory, and how many bytes of them may stay
// (llama/streamed_weights.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "gguf/gguf_file.h"

namespace specdec {

// All in bytes.
struct StreamingPlan {
  std::uint64_t budget = 0;   // for the whole process: options.memory, or most of what is available; 0: unknown
  std::uint64_t weights = 0;  // of the target
  std::uint64_t others = 0;   // caches, drafts, scratch memory, the process itself
  bool is_needed() const { return budget != 0 && weights + others > budget; }
  std::uint64_t for_weights() const { return budget > others ? budget - others : 0; }
};

// caches: bytes. rows: of logits in a pass of the target. draft: empty if there is none. available: bytes of memory.
// Throws WrongValue for options.memory.
StreamingPlan plan_streaming(const GeneratorOptions& options, std::uint64_t caches, int rows,
                             const std::vector<GgufFile>& target, const std::vector<GgufFile>& draft,
                             std::uint64_t available);

// "11G" or "11GiB": 2^30 bytes each, "800M", "512K"; "11GB": 10^9 bytes each; without a unit: bytes. Throws WrongValue.
std::uint64_t parse_memory(const std::string& size);

}  // namespace specdec
