// Converts text to tokens and back, and compares the vocabularies of two models.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "sampling/distribution.h"

struct llama_vocab;

namespace specdec {

// A view of a loaded model's vocabulary; valid as long as the model is.
class Vocabulary {
 public:
  // file: the model's path, for messages.
  Vocabulary(const llama_vocab* vocab, std::string_view file) : vocab_(vocab), file_(file) {}

  int size() const;
  bool is_end_of_generation(Token token) const;
  bool adds_bos() const;
  bool adds_eos() const;
  Token bos() const;  // -1: none
  Token eos() const;  // -1: none
  // Tokens that mark the parts of a text to be completed in the middle; -1: the model has none.
  struct InfillTokens {
    Token before, after, middle;  // the cursor
    Token repository, file;       // before the name of a repository or a file
  };
  InfillTokens infill_tokens() const;
  std::string name(Token token) const { return token < 0 ? "" : piece(token, true); }  // also for control tokens

  // whole: BOS and EOS are added if the model uses them; a BOS written at the start of the text is not doubled.
  // beginning: no EOS. middle: neither. special: control tokens written in the text, and marks that are user-defined
  // tokens (<tool_call>), are recognised; otherwise they are ordinary text. Throws ModelError if the vocabulary cannot
  // represent the text.
  enum class Part { whole, beginning, middle };
  std::vector<Token> tokenize(const std::string& text, bool special = true, Part part = Part::whole) const;

  // Like tokenize(), with control tokens and marks recognised outside text.input.
  std::vector<Token> tokenize(const MarkedText& text, Part part = Part::whole) const;

  // A lower bound on the number of tokens of a text with this many bytes; 0 if there is none, because tokens may stand
  // for text of any length. (Bytes that a byte-level vocabulary lacks, and therefore drops, are counted as if it had
  // them.)
  std::size_t min_tokens(std::size_t bytes) const;

  // The bytes of a token; empty for control tokens, unless `special`. May be part of a UTF-8 character.
  std::string piece(Token token, bool special = false) const;
  void piece(Token token, std::string& text, bool special = false) const;  // overwrites `text`, reusing its memory

  // The first difference between two vocabularies over their common ids, as an error message that calls the models by
  // `role`; nullopt if a draft with one can propose tokens for a target with the other. Padding ids at the end of the
  // longer one do not matter.
  struct Compared {
    std::string role;  // "draft"
    const Vocabulary& vocabulary;
  };
  static std::optional<std::string> first_difference(const Compared& one, const Compared& other);

 private:
  [[noreturn]] void fail_unknown_bytes() const;
  std::vector<Token> tokens_of(const std::string& text, bool add_special, bool special) const;
  std::vector<Token> tokens_of_part(const std::string& text, bool add_special, bool special) const;
  std::vector<Token> tokens_of_continuation(const std::string& text) const;
  std::vector<std::size_t> cuts_of_marks(const std::string& text) const;

  const llama_vocab* vocab_;
  std::string_view file_;
};

}  // namespace specdec
