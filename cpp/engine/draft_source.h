// The source of drafts: a draft model, the target's own head, the text itself, or a choice that suits the target.
#pragma once

#include <string>
#include <variant>

namespace specdec {

struct NoDraft {};        // in a Generator: the target's own head if its file has one and num_draft_tokens is not 0
struct PlainDecoding {};  // no drafts, even if the target's file has a head
struct DraftModel {
  std::string path;  // GGUF
};
struct OwnHead {};         // multi-token prediction layers of the target's file
struct SelfCopy {};        // the target, loaded once more in few bits
struct NgramLookup {};     // what followed the latest occurrence of the text's last 1 to 3 tokens
struct SuffixDecoding {};  // what most often followed the longest match, in the text and in earlier outputs
// Chosen to suit the target (engine/resolved_draft.h): its own head, a draft model on this machine or the hub, or
// suffix decoding.
struct AutomaticDraft {
  bool downloads = true;  // false: only files on this machine
};
using DraftSource =
    std::variant<NoDraft, PlainDecoding, DraftModel, OwnHead, SelfCopy, NgramLookup, SuffixDecoding, AutomaticDraft>;

// Parses user input: "" (nothing was given), "none", "mtp", "self", "ngram", "suffix", "auto", or a path. A file named
// "ngram" must be given as "./ngram".
DraftSource draft_source(const std::string& text);
std::string to_text(const DraftSource& source);
// The source for a file with any name.
std::string draft_file(const std::string& path);

inline bool has_draft(const DraftSource& source) { return !std::holds_alternative<NoDraft>(source); }
// The path of a draft model; null for other sources.
inline const std::string* draft_path(const DraftSource& source) {
  const auto* model = std::get_if<DraftModel>(&source);
  return model == nullptr ? nullptr : &model->path;
}

}  // namespace specdec
