// Says whether drafts are used, and if not why, from measured costs.
#pragma once

#include <string>

#include "speculative/adaptive_draft_length.h"

namespace specdec {

// One sentence, which begins with "on", "off" or "undecided". num_draft_tokens: K or auto_draft_tokens.
std::string drafting_report(bool has_draft, int num_draft_tokens, const DraftingOutlook& outlook);

}  // namespace specdec
