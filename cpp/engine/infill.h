// Completion in the middle: builds the prompt, for a model that was trained for it, from the text before and after the
// cursor.
#pragma once

#include <string>
#include <vector>

#include "llama/vocabulary.h"

namespace specdec {

struct Infill {
  std::string before, after;  // the cursor
  struct File {
    std::string name, text;
  };
  std::vector<File> files;  // other files of the repository
};

// <PRE>before<SUF>after<MID>, in the model's own tokens. With files, a repository in the form of llama-server comes
// first: <REP>myproject, each file as <SEP>name and its text, and <SEP>filename for the file of the cursor; without
// <SEP>, only the files' texts. Control tokens in these texts are not recognised. Throws std::invalid_argument if the
// model lacks one of the first three.
std::vector<Token> infill_tokens(const Vocabulary& vocabulary, const Infill& infill);
bool has_infill(const Vocabulary& vocabulary);

}  // namespace specdec
