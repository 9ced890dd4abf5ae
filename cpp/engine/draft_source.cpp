#include "engine/draft_source.h"

#include <utility>

namespace specdec {
namespace {

// Named sources; any other string is a path.
const std::pair<const char*, DraftSource> named[] = {
    {"", NoDraft()},          {"none", PlainDecoding()},    {"mtp", OwnHead()},        {"self", SelfCopy()},
    {"ngram", NgramLookup()}, {"suffix", SuffixDecoding()}, {"auto", AutomaticDraft()}};

}  // namespace

DraftSource draft_source(const std::string& text) {
  for (const auto& [name, source] : named) {
    if (text == name) return source;
  }
  return DraftModel{text};
}

std::string to_text(const DraftSource& source) {
  if (const std::string* path = draft_path(source)) return draft_file(*path);
  for (const auto& [name, other] : named) {
    if (other.index() == source.index()) return name;
  }
  return "";
}

std::string draft_file(const std::string& path) {
  return draft_path(draft_source(path)) != nullptr ? path : "./" + path;
}

}  // namespace specdec
