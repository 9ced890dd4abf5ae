// Says whether drafts are used, and if not, why, from measured costs.
#pragma once

#include <string>

#include "speculative/auto/adaptive_draft_length.h"

namespace specdec {

// What decides whether one request uses drafts.
struct DraftingState {
  bool has_draft = false;
  int num_draft_tokens = 0;  // K or auto_draft_tokens
  DraftingOutlook outlook;
};

// One sentence, which begins with "on", "off" or "undecided".
std::string drafting_report(const DraftingState& state);

}  // namespace specdec
