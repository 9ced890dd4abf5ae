// Grammars, JSON schemas and regular expressions as constraints on the tokens of a vocabulary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sampling/constraint.h"

namespace specdec {

// The whole output must match. Methods may be called on any thread; each throws ArgumentError for what is not valid or
// not supported, with its place where that is known, and never accepts it in part.
class ConstraintCompiler {
 public:
  // pieces: the bytes of every token; empty for control tokens, which no constraint allows. ends: the end-of-generation
  // tokens, at least one.
  ConstraintCompiler(const std::vector<std::string>& pieces, const std::vector<Token>& ends);
  ~ConstraintCompiler();

  // A tool call as an alternative: in llama.cpp's notation, with the beginning of what matches that comes before the
  // output. No grammar: there is none.
  struct Call {
    std::string grammar, prefix;
  };
  std::unique_ptr<sampling::Constraint> call(const Call& call) const;

  // In llama.cpp's notation; the first rule: root.
  std::unique_ptr<sampling::Constraint> grammar(const std::string& gbnf, const Call& or_call = {}) const;
  // In one line, as Python's json.dumps writes it. is_strict: see supported_schema().
  std::unique_ptr<sampling::Constraint> json_schema(const std::string& schema, bool is_strict = true,
                                                    const Call& or_call = {}) const;
  // In xgrammar's form or its older one, see structural_tag.h.
  std::unique_ptr<sampling::Constraint> structural_tag(const std::string& tag, bool is_strict = true) const;
  std::unique_ptr<sampling::Constraint> regex(const std::string& regex, const Call& or_call = {}) const;

 private:
  struct Compiler;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace specdec
