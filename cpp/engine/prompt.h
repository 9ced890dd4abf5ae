// The tokens of a prompt, without tokenizing far more text than the context holds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "llama/vocabulary.h"

namespace specdec {

// vocabulary.tokenize(prompt). Throws ContextFull if these are more than n_ctx tokens; of a text that is much too long
// only the beginning is tokenized. Throws Cancelled once cancelled(), which may be empty, returns true: it is asked
// between the steps of a long text.
std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const MarkedText& prompt, int n_ctx,
                                   const std::function<bool()>& cancelled);

inline std::vector<Token> tokenize_prompt(const Vocabulary& vocabulary, const std::string& text, int n_ctx,
                                          const std::function<bool()>& cancelled) {
  return tokenize_prompt(vocabulary, MarkedText{text, {}}, n_ctx, cancelled);
}

// Throws ContextFull. The command line and Python add the remedy, each with its own name of the option.
// is_all: the prompt has no more than these tokens.
[[noreturn]] void fail_prompt_too_long(std::size_t num_tokens, bool is_all, int n_ctx);

}  // namespace specdec
