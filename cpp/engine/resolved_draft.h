// The one place that decides which draft a Generator uses.
#pragma once

#include <string>
#include <vector>

#include "engine/generator_options.h"
#include "gguf/gguf_file.h"
#include "model_file/head_file.h"

namespace specdec {

struct ResolvedDraft {
  DraftSource source;           // never AutomaticDraft or PlainDecoding
  std::vector<GgufFile> parts;  // headers of a draft in a file
  HeadFile head;                // describes the file if it holds only a drafting head
  bool was_chosen = false;      // AutomaticDraft chose the file
  std::string choice;           // a sentence about what AutomaticDraft chose; empty: nothing to say
  std::vector<std::string> notes;
};

// The draft that `options` ask for, in options.draft:
//   a file          that file; a drafting head must have been made for the target
//   OwnHead         the target's own head
//   SelfCopy        the target's files
//   NoDraft         the target's own head if it has a usable one, otherwise none
//   PlainDecoding   none
//   AutomaticDraft  the target's own head; otherwise a block drafter, a head or a draft model that is on this machine
//                   (engine/companion_search.h); otherwise a companion of its family, which options.download fetches;
//                   otherwise suffix decoding, with a note that says why
// target: its headers. can_use_own_head, can_choose_heads: false after the target's own head, or a chosen head in a
// file, could not be loaded. Throws WrongValue for options that contradict each other, ModelError, Cancelled.
ResolvedDraft resolve_draft(const GeneratorOptions& options, const std::vector<GgufFile>& target,
                            bool can_use_own_head = true, bool can_choose_heads = true);

}  // namespace specdec
