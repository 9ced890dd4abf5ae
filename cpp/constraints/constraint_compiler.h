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

  // In llama.cpp's notation; the first rule: root. prefix: the beginning of what matches that comes before the output.
  std::unique_ptr<sampling::Constraint> grammar(const std::string& gbnf, const std::string& prefix = "") const;
  std::unique_ptr<sampling::Constraint> json_schema(
      const std::string& schema) const;  // in one line, as Python's json.dumps writes it
  std::unique_ptr<sampling::Constraint> regex(const std::string& regex) const;

 private:
  struct Compiler;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace specdec
