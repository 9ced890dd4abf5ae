// Grammars, JSON schemas and regular expressions as constraints on the tokens of a vocabulary.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "constraints/limits.h"
#include "sampling/constraint.h"

namespace specdec {

// A tool call, which may be an alternative to another constraint.
struct CallGrammar {
  std::string grammar{};          // in llama.cpp's notation; empty: no alternative
  std::string prefix{};           // the beginning of the match that precedes the output
  std::string rules{};            // of schemas (schema_parts()), which the grammar may name
  std::set<std::string> names{};  // of those of these rules that it names
};

// Each constraint must match the whole output. Methods may be called on any thread. They throw ArgumentError for what
// is invalid or not supported, with its place if known, and never accept a part of it.
class ConstraintCompiler {
 public:
  // pieces: the bytes of every token; empty for control tokens, which no constraint allows. ends: the end-of-generation
  // tokens, at least one.
  ConstraintCompiler(const std::vector<std::string>& pieces, const std::vector<Token>& ends);
  ~ConstraintCompiler();

  using Call = CallGrammar;
  std::unique_ptr<sampling::Constraint> call(const Call& call) const;

  // gbnf: in llama.cpp's notation; the first rule is root.
  std::unique_ptr<sampling::Constraint> grammar(const std::string& gbnf, const Call& or_call = {}) const;
  // The output is on one line, as Python's json.dumps writes it. is_strict: see supported_schema().
  std::unique_ptr<sampling::Constraint> json_schema(const std::string& schema, bool is_strict = true,
                                                    const Call& or_call = {},
                                                    GrammarSource source = GrammarSource::client) const;
  // tag: in xgrammar's current or older form, see structural_tag.h.
  std::unique_ptr<sampling::Constraint> structural_tag(const std::string& tag, bool is_strict = true) const;
  std::unique_ptr<sampling::Constraint> regex(const std::string& regex, const Call& or_call = {}) const;

 private:
  struct Compiler;
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace specdec
