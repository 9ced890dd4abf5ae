// Text to tokens and back, and whether two models mean the same by a token.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sampling/distribution.h"

struct llama_vocab;

namespace specdec {

// A view of a loaded model's vocabulary; valid as long as the model is.
class Vocabulary {
 public:
  explicit Vocabulary(const llama_vocab* vocab) : vocab_(vocab) {}

  int size() const;
  bool is_end_of_generation(Token token) const;
  bool adds_bos() const;
  Token bos() const;

  // Begins with the model's own first token (BOS) if it uses one; special tokens written out in the text are recognised.
  // Throws std::invalid_argument where the vocabulary has no tokens for it.
  std::vector<Token> tokenize(const std::string& text) const;

  // The bytes that a token stands for; empty for control tokens. May be part of a UTF-8 character.
  std::string piece(Token token) const;
  void piece(Token token, std::string& text) const;  // in place of what `text` held, in the same memory

  // The first respect in which the two differ over their common ids, for an error message; nothing if a draft with one
  // can propose tokens for a target with the other. Padding ids at the end of the longer one do not matter.
  static std::optional<std::string> first_difference(const Vocabulary& draft, const Vocabulary& target);

 private:
  const llama_vocab* vocab_;
};

}  // namespace specdec
