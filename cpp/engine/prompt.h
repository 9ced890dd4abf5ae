// Tokenizes a prompt, but not much more text than the context holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/argument.h"
#include "engine/picture_reader.h"
#include "llama/vocabulary.h"
#include "pictures/picture_file.h"
#include "speculative/text.h"

namespace specdec {

// vocabulary.tokenize(prompt). Throws ContextFull if these are more than n_ctx tokens; if the text is much too long,
// only its beginning is tokenized. Throws Cancelled once cancelled(), which may be empty, returns true; it is asked
// between the steps of a long text.
std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const MarkedText& prompt, int n_ctx,
                                   const std::function<bool()>& cancelled,
                                   Vocabulary::Part part = Vocabulary::Part::whole);

// The same for a text with marks of pictures (picture_mark()), each of which must occur once. Throws also
// std::invalid_argument that names a picture.
Text read_prompt(const Vocabulary& vocabulary, PictureReader& reader, const MarkedText& prompt,
                 const PictureFiles& pictures, int n_ctx, const std::function<bool()>& cancelled);

inline std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const std::string& text, int n_ctx,
                                          const std::function<bool()>& cancelled) {
  return tokenize_prompt(vocabulary, MarkedText{text, {}}, n_ctx, cancelled);
}

// Throws std::invalid_argument for ids outside the range; places of pictures have none.
void check_tokens(const std::string& name, const Text& text, const Range& ids);

// Throws ContextFull. The command line and Python add the remedy with their own name of the option. is_all: num_tokens
// counts the whole prompt, not only its beginning.
[[noreturn]] void fail_prompt_too_long(std::size_t num_tokens, bool is_all, int n_ctx);

}  // namespace specdec
