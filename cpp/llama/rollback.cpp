#include "llama/rollback.h"

#include <algorithm>
#include <iterator>

#include "llama-arch.h"

namespace specdec {
namespace {

constexpr const char* tested_recurrent[] = {"falcon-h1", "granitehybrid", "jamba",     "kimi-linear", "lfm2",
                                            "lfm2moe",   "mamba",         "mamba2",    "nemotron_h",  "nemotron_h_moe",
                                            "qwen35",    "qwen35moe",     "qwen3next", "rwkv7"};

}  // namespace

Rollback rollback_of(const std::string& architecture) {
  const llm_arch arch = llm_arch_from_string(architecture);
  if (arch == LLM_ARCH_UNKNOWN) return Rollback::unknown;
  if (llm_arch_supports_rs_rollback(arch)) return Rollback::snapshots;
  return llm_arch_is_recurrent(arch) || llm_arch_is_hybrid(arch) ? Rollback::checkpoints : Rollback::cells;
}

bool is_recurrent_only(const std::string& architecture) {
  const llm_arch arch = llm_arch_from_string(architecture);
  return arch != LLM_ARCH_UNKNOWN && llm_arch_is_recurrent(arch);
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

bool has_same_bits(const std::string& architecture) {
  const Rollback rollback = rollback_of(architecture);
  if (rollback == Rollback::cells || rollback == Rollback::unknown) return rollback == Rollback::cells;
  return std::find(std::begin(tested_recurrent), std::end(tested_recurrent), architecture) !=
         std::end(tested_recurrent);
}

}  // namespace specdec
