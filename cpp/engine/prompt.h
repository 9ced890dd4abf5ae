// Tokenizes a prompt, but not much more text than the context holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "llama/vocabulary.h"

namespace specdec {

// vocabulary.tokenize(prompt). Throws ContextFull if these are more than n_ctx tokens; if the text is much too long,
// only its beginning is tokenized. Throws Cancelled once cancelled(), which may be empty, returns true; it is asked
// between the steps of a long text.
std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const MarkedText& prompt, int n_ctx,
                                   const std::function<bool()>& cancelled);

inline std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const std::string& text, int n_ctx,
                                          const std::function<bool()>& cancelled) {
  return tokenize_prompt(vocabulary, MarkedText{text, {}}, n_ctx, cancelled);
}

// Throws ContextFull. The command line and Python add the remedy with their own name of the option. is_all: num_tokens
// counts the whole prompt, not only its beginning.
[[noreturn]] void fail_prompt_too_long(std::size_t num_tokens, bool is_all, int n_ctx);

}  // namespace specdec
