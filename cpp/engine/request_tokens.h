// Translates what a request says about tokens, by id or by text, to tokens of the target's vocabulary.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "engine/request.h"
#include "llama/vocabulary.h"
#include "sampling/token_rules.h"

namespace specdec {

class RequestTokens {
 public:
  // num_tokens: the length of a row of logits.
  RequestTokens(Vocabulary vocabulary, int num_tokens);

  // num_prompt: tokens of the prompt. Throws an ArgumentError that names the option. On any thread.
  sampling::TokenRules rules(const Request& request, int num_prompt);
  // The tokens of the prediction as the continuation of a prompt.
  std::vector<Token> prediction(const Request& request) const;

 private:
  using Texts = std::vector<std::vector<Token>>;
  void check_ids(const char* option, const std::vector<Token>& tokens) const;
  void check_bias(const sampling::LogitBias& logit_bias) const;
  Texts banned(const std::vector<std::string>& words) const;
  Texts dry_breakers(const std::vector<std::string>& texts);
  void add_breakers(const std::string& text, Texts& breakers) const;

  const Vocabulary vocabulary_;
  const int num_tokens_;
  std::vector<Token> ends_;  // end-of-generation tokens

  std::mutex mutex_;
  std::vector<std::string> breaker_texts_;  // the last used texts, kept because finding their tokens reads the whole
                                            // vocabulary
  Texts breakers_;
};

}  // namespace specdec
