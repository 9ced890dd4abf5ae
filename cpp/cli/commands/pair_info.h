// specdec info TARGET DRAFT: whether these fit together, and what drafting costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/gguf_summary.h"
#include "hub/companions.h"

namespace specdec::cli {

struct PairInfo {
  struct Caches {
    std::string type;
    std::uint64_t target, draft;  // bytes of a full context
  };

  std::string target_path, draft_path;
  std::string target_name, draft_name;
  std::uint64_t target_tokens, draft_tokens;  // of the vocabularies
  CompanionFit fit;
  std::string head_problem;  // of a drafting head; empty if the draft is no head or fits this target
  bool is_head = false;
  int context;            // tokens
  std::uint64_t weights;  // bytes of both
  std::vector<Caches> caches;
};

// Of headers. context: tokens; 0: a Generator's default.
PairInfo pair_info(const Parts& target, const Parts& draft, int context);
bool fits(const PairInfo& pair);
std::string pair_text(const PairInfo& pair);
std::string pair_json(const PairInfo& pair);

}  // namespace specdec::cli
