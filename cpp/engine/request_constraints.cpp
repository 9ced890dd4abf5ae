#include "engine/request_constraints.h"

#include <algorithm>
#include <set>

#include "base/argument.h"
#include "base/error.h"
#include "base/index.h"
#include "constraints/gbnf.h"
#include "constraints/reasoning_budget.h"
#include "constraints/schema_grammar.h"
#include "constraints/structural_tag.h"

namespace specdec {
namespace {

std::string grammar_of_choices(const std::vector<std::string>& choices) {
  std::string alternatives;
  for (const std::string& choice : choices) alternatives += (alternatives.empty() ? "" : " | ") + gbnf_literal(choice);
  return "root ::= " + alternatives;
}

// The schema of calls in JSON is made of the tools' schemas.
GrammarSource source_of(const Request& request) {
  return request.constraint_name == "tools" ? GrammarSource::ours : GrammarSource::client;
}

}  // namespace

std::vector<std::string> ignored_keywords(const Request& request) {
  if (request.strict_schema) return {};
  if (request.ignored_keywords) return *request.ignored_keywords;
  if (request.json_schema) {
    SchemaStyle style;
    style.is_strict = false;
    return schema_grammar(*request.json_schema, style).ignored;
  }
  if (request.structural_tag) return supported_structural_tag(*request.structural_tag, false).ignored;
  return {};
}

// control_tokens: rendered by name, see Request. A compiler has the vocabulary's pieces and a cache of its own, so only
// a few are kept: one without control tokens, and those of the chats and structural tags at hand.
std::shared_ptr<const ConstraintCompiler> RequestConstraints::compiler(const std::vector<Token>& control_tokens) {
  constexpr std::size_t max_compilers = 3;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(compilers_.begin(), compilers_.end(),
                                  [&](const Compiler& one) { return one.control_tokens == control_tokens; });
  if (found != compilers_.end()) {
    compilers_.splice(compilers_.begin(), compilers_, found);
    return compilers_.front().compiler;
  }
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
  compilers_.push_front({control_tokens, std::make_shared<const ConstraintCompiler>(pieces, ends)});
  if (compilers_.size() > max_compilers) compilers_.pop_back();
  return compilers_.front().compiler;
}

std::vector<std::vector<Token>> RequestConstraints::kept_compilers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::vector<Token>> kept;
  for (const Compiler& one : compilers_) kept.push_back(one.control_tokens);
  return kept;
}

std::vector<Token> RequestConstraints::control_tokens(const Request& request) const {
  std::set<Token> tokens(request.control_tokens.begin(), request.control_tokens.end());
  if (!request.structural_tag) return request.control_tokens;
  const SupportedStructuralTag tag = supported_structural_tag(*request.structural_tag, request.strict_schema);
  const auto add = [&](Token token) {
    if (vocabulary_.piece(token).empty()) tokens.insert(token);
  };
  for (const std::string& text : tag.texts) {
    for (const Token token : vocabulary_.tokenize(text, true, Vocabulary::Part::middle)) add(token);
  }
  for (const Token token : tag.tokens) {
    if (token < vocabulary_size_) add(token);
  }
  return {tokens.begin(), tokens.end()};
}

std::unique_ptr<sampling::Constraint> RequestConstraints::compile(const Request& request) {
  std::unique_ptr<sampling::Constraint> constraint = compile_form(request);
  if (request.reasoning_budget < 0 || !request.reasoning) return constraint;
  ReasoningBudget budget{request.reasoning_budget, request.reasoning->begin, request.reasoning->end,
                         vocabulary_.tokenize(request.reasoning->end, true, Vocabulary::Part::middle),
                         request.reasoning->is_open};
  if (budget.ending.empty()) return constraint;
  return limited_reasoning(std::move(constraint), std::move(budget), vocabulary_size_,
                           [vocabulary = vocabulary_](Token token) { return vocabulary.piece(token, true); });
}

std::unique_ptr<sampling::Constraint> RequestConstraints::compile_form(const Request& request) {
  if (request.constraint() == nullptr && !request.call) return nullptr;
  static const CallGrammar none;
  const CallGrammar& call = request.call ? *request.call : none;
  try {
    const std::shared_ptr<const ConstraintCompiler> compiler = this->compiler(control_tokens(request));
    if (request.grammar) return compiler->grammar(*request.grammar, call);
    if (request.regex) return compiler->regex(*request.regex, call);
    if (request.choice) return compiler->grammar(grammar_of_choices(*request.choice), call);
    if (request.structural_tag) return compiler->structural_tag(*request.structural_tag, request.strict_schema);
    if (request.json_schema)
      return compiler->json_schema(*request.json_schema, request.strict_schema, call, source_of(request));
    return compiler->call(call);
  } catch (const ArgumentError& error) {
    if (request.constraint_name.empty() || error.name() == "tools") throw;
    throw ArgumentError(request.constraint_name, error.problem());
  }
}

}  // namespace specdec
