// Which draft a Generator uses: the one place that decides it.
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
  HeadFile head;                // what the file is if it holds a drafting head alone
  bool was_chosen = false;      // the file, for AutomaticDraft
  std::string choice;           // what was chosen for AutomaticDraft, in a sentence; empty: nothing to say
  std::vector<std::string> notes;
};

// The draft that `options` ask for, in options.draft:
//   a file          that file; a drafting head must have been made for the target
//   OwnHead         the target's own head
//   NoDraft         the target's own head if it has a usable one, otherwise none
//   PlainDecoding   none
//   AutomaticDraft  the target's own head; otherwise a block drafter, a head or a draft model that is on this machine
//                   (engine/companion_search.h); otherwise a companion of its family, which options.download fetches;
//                   otherwise suffix decoding, with a note that says why
// target: its headers. can_use_own_head, can_choose_heads: false where that head, or a chosen one in a file, could not
// be loaded. Throws WrongValue for options that contradict each other, ModelError, Cancelled.
ResolvedDraft resolve_draft(const GeneratorOptions& options, const std::vector<GgufFile>& target,
                            bool can_use_own_head = true, bool can_choose_heads = true);

}  // namespace specdec
