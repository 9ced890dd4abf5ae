// The source of drafts: none, n-gram lookup, or a draft model.
#pragma once

#include <string>
#include <variant>

namespace specdec {

struct NoDraft {};
struct DraftModel {
  std::string path;  // GGUF
};
struct NgramLookup {};  // the text itself: what followed its last few tokens before
using DraftSource = std::variant<NoDraft, DraftModel, NgramLookup>;

// From user input: "" for none, "ngram", otherwise a path. A file named "ngram" is given as "./ngram".
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
