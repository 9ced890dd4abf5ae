// The constraints of requests: grammars, JSON schemas and regular expressions over the target's vocabulary.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "constraints/constraint_compiler.h"
#include "engine/request.h"
#include "llama/vocabulary.h"

namespace specdec {

// The keywords, as JSON pointers, of a request's schema or of the schemas in its structural tag that are left to the
// caller because the schema is not strict. Throws ArgumentError.
std::vector<std::string> ignored_keywords(const Request& request);

class RequestConstraints {
 public:
  // target: its path, for messages.
  RequestConstraints(Vocabulary vocabulary, int vocabulary_size, std::string target)
      : vocabulary_(vocabulary), vocabulary_size_(vocabulary_size), target_(std::move(target)) {}

  // A request's constraint, including the limit of its reasoning; null: it has none. On any thread. Throws
  // std::invalid_argument for one that cannot be compiled, ModelError if the vocabulary has no end of generation.
  std::unique_ptr<sampling::Constraint> compile(const Request& request);

  // The control tokens that are rendered by name: the request's, and those that its structural tag names.
  std::vector<Token> control_tokens(const Request& request) const;

  // Of each compiler that is kept, the control tokens that it renders by name; the last used first.
  std::vector<std::vector<Token>> kept_compilers() const;

 private:
  struct Compiler {
    std::vector<Token> control_tokens;  // rendered by name
    std::shared_ptr<const ConstraintCompiler> compiler;
  };

  std::unique_ptr<sampling::Constraint> compile_form(const Request& request);
  std::shared_ptr<const ConstraintCompiler> compiler(const std::vector<Token>& control_tokens);

  const Vocabulary vocabulary_;
  const int vocabulary_size_;
  const std::string target_;
  mutable std::mutex mutex_;
  std::list<Compiler> compilers_;  // made when needed, the last used first; at most max_compilers
};

}  // namespace specdec
