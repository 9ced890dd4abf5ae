#include "engine/infill.h"

#include <stdexcept>

namespace specdec {

bool has_infill(const Vocabulary& vocabulary) {
  const Vocabulary::InfillTokens marks = vocabulary.infill_tokens();
  return marks.before >= 0 && marks.after >= 0 && marks.middle >= 0;
}

std::vector<Token> infill_tokens(const Vocabulary& vocabulary, const Infill& infill) {
  if (!has_infill(vocabulary)) {
    throw std::invalid_argument(
        "the model has no tokens for completion in the middle; use one that was trained for it, such as Qwen2.5-Coder");
  }
  const Vocabulary::InfillTokens marks = vocabulary.infill_tokens();
  std::vector<Token> tokens;
  const auto mark = [&](Token token) {
    if (token >= 0) tokens.push_back(token);
  };
  const auto add = [&](const std::string& text) {
    if (text.empty()) return;
    const std::vector<Token> more = vocabulary.tokenize(text, false, Vocabulary::Part::middle);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  const auto begin_file = [&](const std::string& name) {
    if (marks.file < 0) return;
    mark(marks.file);
    add(name + "\n");
  };

  if (vocabulary.adds_bos()) mark(vocabulary.bos());
  if (!infill.files.empty()) {
    mark(marks.repository);
    if (marks.repository >= 0) add("myproject\n");
    for (const Infill::File& file : infill.files) {
      begin_file(file.name);
      add(file.text);
    }
    begin_file("filename");
  }
  mark(marks.before);
  add(infill.before);
  mark(marks.after);
  add(infill.after);
  mark(marks.middle);
  return tokens;
}

}  // namespace specdec
