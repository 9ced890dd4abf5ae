// Where drafts come from.
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

// As users write it: "" for none, "ngram", else a path. A file of such a name is reached as "./ngram".
DraftSource draft_source(const std::string& text);
std::string to_text(const DraftSource& source);
// The source that is this file, whatever its name.
std::string draft_file(const std::string& path);

inline bool has_draft(const DraftSource& source) { return !std::holds_alternative<NoDraft>(source); }
// The path of a draft model; null for other sources.
inline const std::string* draft_path(const DraftSource& source) {
  const auto* model = std::get_if<DraftModel>(&source);
  return model == nullptr ? nullptr : &model->path;
}

}  // namespace specdec
