#include "engine/request_constraints.h"

#include "base/argument.h"
#include "base/error.h"
#include "base/index.h"
#include "constraints/gbnf.h"
#include "constraints/json_schema.h"

namespace specdec {

std::vector<std::string> ignored_keywords(const std::string& schema) { return supported_schema(schema, false).ignored; }

std::string grammar_of_choices(const std::vector<std::string>& choices) {
  std::string alternatives;
  for (const std::string& choice : choices) alternatives += (alternatives.empty() ? "" : " | ") + gbnf_literal(choice);
  return "root ::= " + alternatives;
}

// control_tokens: those that are rendered by name, see Request.
const ConstraintCompiler& RequestConstraints::compiler(const std::vector<Token>& control_tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<ConstraintCompiler>& compiler = compilers_[control_tokens];
  if (compiler) return *compiler;
  std::vector<std::string> pieces(idx(vocabulary_size_));
  std::vector<Token> ends;
  for (Token token = 0; token < vocabulary_size_; ++token) {
    pieces[idx(token)] = vocabulary_.piece(token);
    if (vocabulary_.is_end_of_generation(token)) ends.push_back(token);
  }
  if (ends.empty())
    throw ModelError(target_ + " has no end-of-generation token, so a constrained output could not end");
  for (const Token token : control_tokens) {
    if (!vocabulary_.is_end_of_generation(token)) pieces.at(idx(token)) = vocabulary_.piece(token, true);
  }
  compiler = std::make_unique<ConstraintCompiler>(pieces, ends);
  return *compiler;
}

std::unique_ptr<sampling::Constraint> RequestConstraints::compile(const Request& request) {
  if (request.constraint() == nullptr && !request.call) return nullptr;
  const ConstraintCompiler& compiler = this->compiler(request.control_tokens);
  const ConstraintCompiler::Call call =
      request.call ? ConstraintCompiler::Call{request.call->grammar, request.call->prefix} : ConstraintCompiler::Call();
  try {
    if (request.grammar) return compiler.grammar(*request.grammar, call);
    if (request.regex) return compiler.regex(*request.regex, call);
    if (request.json_schema) return compiler.json_schema(*request.json_schema, request.strict_schema, call);
    return compiler.call(call);
  } catch (const ArgumentError& error) {
    if (request.constraint_name.empty()) throw;
    throw ArgumentError(request.constraint_name, error.problem());
  }
}

}  // namespace specdec
