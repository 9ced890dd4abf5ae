// Grammars, JSON schemas and regular expressions as constraints on the tokens of a vocabulary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sampling/constraint.h"

namespace specdec {

// Each constraint must match the whole output. Methods may be called on any thread. They throw ArgumentError for what
// is invalid or not supported, with its place if known, and never accept a part of it.
class ConstraintCompiler {
 public:
  // pieces: the bytes of every token; empty for control tokens, which no constraint allows. ends: the end-of-generation
  // tokens, at least one.
  ConstraintCompiler(const std::vector<std::string>& pieces, const std::vector<Token>& ends);
  ~ConstraintCompiler();

  // A tool call as an alternative: its grammar in llama.cpp's notation, and the beginning of the match that precedes
  // the output. An empty grammar: no alternative.
  struct Call {
    std::string grammar, prefix;
  };
  std::unique_ptr<sampling::Constraint> call(const Call& call) const;

  // gbnf: in llama.cpp's notation; the first rule is root.
  std::unique_ptr<sampling::Constraint> grammar(const std::string& gbnf, const Call& or_call = {}) const;
  // The output is on one line, as Python's json.dumps writes it. is_strict: see supported_schema().
  std::unique_ptr<sampling::Constraint> json_schema(const std::string& schema, bool is_strict = true,
                                                    const Call& or_call = {}) const;
  // tag: in xgrammar's current or older form, see structural_tag.h.
  std::unique_ptr<sampling::Constraint> structural_tag(const std::string& tag, bool is_strict = true) const;
  std::unique_ptr<sampling::Constraint> regex(const std::string& regex, const Call& or_call = {}) const;

 private:
  struct Compiler;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace specdec
