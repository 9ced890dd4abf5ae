#include "llama/rollback.h"

#include "llama-arch.h"

namespace specdec {

Rollback rollback_of(const std::string& architecture) {
  const llm_arch arch = llm_arch_from_string(architecture);
  if (arch == LLM_ARCH_UNKNOWN) return Rollback::unknown;
  if (llm_arch_supports_rs_rollback(arch)) return Rollback::snapshots;
  return llm_arch_is_recurrent(arch) || llm_arch_is_hybrid(arch) ? Rollback::checkpoints : Rollback::cells;
}

const char* name(Rollback rollback) {
  switch (rollback) {
    case Rollback::cells:
      return "cells";
    case Rollback::snapshots:
      return "snapshots";
    case Rollback::checkpoints:
      return "checkpoints";
    default:
      return "unknown";
  }
}

}  // namespace specdec
