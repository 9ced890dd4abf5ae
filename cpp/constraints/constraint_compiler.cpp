#include "constraints/constraint_compiler.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/argument.h"
#include "base/error.h"
#include "constraints/automaton_constraint.h"
#include "constraints/gbnf.h"
#include "constraints/json_text.h"
#include "constraints/limits.h"
#include "constraints/pattern.h"
#include "constraints/schema_grammar.h"
#include "constraints/structural_tag.h"
#include "constraints/xgrammar_log.h"

namespace specdec {
namespace {

class GrammarConstraint final : public sampling::Constraint {
 public:
  GrammarConstraint(const xgrammar::CompiledGrammar& grammar, int vocabulary_size, const std::string& prefix)
      : matcher_(grammar), vocabulary_size_(vocabulary_size) {
    if (!prefix.empty() && !matcher_.AcceptString(prefix))
      throw ArgumentError("tools", "does not match the end of the prompt");
  }

  int vocabulary_size() const override { return vocabulary_size_; }

  void write_mask(std::uint32_t* words) override {
    if (matcher_.IsTerminated()) return;
    std::int64_t size = (vocabulary_size_ + 31) / 32;
    DLTensor tensor{words, {kDLCPU, 0}, 1, xgrammar::GetBitmaskDLType(), &size, nullptr, 0};
    // If this returns false, everything is allowed and the mask may be unwritten.
    if (!bounded([&] { return matcher_.FillNextTokenBitmask(&tensor); }))
      std::fill(words, words + size, ~std::uint32_t{0});
  }

  bool advance(Token token) override {
    if (matcher_.IsTerminated() || !bounded([&] { return matcher_.AcceptToken(token); })) return false;
    ++length_;
    return true;
  }

  void truncate(int length) override {
    if (length == length_) return;
    matcher_.Rollback(length_ - length);
    length_ = length;
  }

 private:
  // The matcher fails when a token would take too long (our patch 0007).
  template <class Action>
  static bool bounded(Action&& action) {
    try {
      return action();
    } catch (const XgrammarError&) {
      throw Error("the constraint is too ambiguous: the output so far can be read in too many ways");
    }
  }

  xgrammar::GrammarMatcher matcher_;
  int vocabulary_size_;
  int length_ = 0;
};

// xgrammar's messages name its internals. Our readers report what is wrong first, with its place; no input is known
// that only xgrammar rejects.
constexpr const char* beyond_xgrammar = "goes beyond what the compiler of grammars supports";
[[noreturn]] void fail_to_compile(const std::string& name) {
  throw ArgumentError(name, std::string("cannot be used: it ") + beyond_xgrammar);
}

// Runs parse(), which makes an xgrammar::Grammar. A warning is an error here, because xgrammar ignores what it warns
// about.
template <class Parse>
xgrammar::Grammar parsed(const std::string& name, Parse&& parse) {
  try {
    take_xgrammar_warning();
    xgrammar::Grammar grammar = parse();
    if (take_xgrammar_warning().empty()) return grammar;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // fails below
  }
  fail_to_compile(name);
}

// In our words, what xgrammar says of a structural tag; our reader has checked the rest.
std::string problem_of_tag(const std::string& said) {
  const std::string token = "Token string ";
  const std::size_t at = said.find(token), end = said.rfind(" not found in vocabulary");
  if (at != std::string::npos && end != std::string::npos)
    return "names the token " + said.substr(at + token.size(), end - at - token.size()) +
           ", which the vocabulary does not have";
  if (said.find("content is unlimited") != std::string::npos)
    return "has content that does not end by itself, so it needs an end that is not empty";
  if (said.find("match multiple triggers") != std::string::npos ||
      said.find("not match any trigger") != std::string::npos)
    return "must begin with exactly one of the trigger tokens";
  return beyond_xgrammar;
}

using Call = ConstraintCompiler::Call;

Pattern pattern_of(const std::string& name, const std::string& regex) {
  try {
    Pattern pattern(regex, Pattern::Match::whole);
    if (pattern.is_empty()) throw ArgumentError(name, "cannot be used: no text matches it");
    return pattern;
  } catch (const PatternError& error) {
    throw ArgumentError(name, (error.is_valid() ? "cannot be used: " : "is not valid: ") + std::string(error.what()));
  }
}

xgrammar::Grammar parsed_grammar(const std::string& gbnf, GrammarSource source) {
  const std::string text = xgrammar_text_of(gbnf, source);
  return parsed("grammar", [&] { return xgrammar::Grammar::FromEBNF(text); });
}

xgrammar::Grammar parsed_call(const Call& call) {
  try {
    const std::string text = xgrammar_text_of(call.grammar, GrammarSource::ours, call.names) + call.rules;
    return parsed("tools", [&] { return xgrammar::Grammar::FromEBNF(text); });
  } catch (const ArgumentError& error) {  // the client has sent no grammar
    throw ArgumentError("tools", error.problem());
  }
}

// Both alternatives begin with the prefix.
xgrammar::Grammar either_of(const xgrammar::Grammar& text, const Call& call) {
  std::vector<xgrammar::Grammar> after_prefix;
  if (!call.prefix.empty())
    after_prefix.push_back(parsed_grammar("root ::= " + gbnf_literal(call.prefix), GrammarSource::ours));
  after_prefix.push_back(text);
  return xgrammar::Grammar::Union({parsed_call(call), xgrammar::Grammar::Concat(after_prefix)});
}

}  // namespace

struct ConstraintCompiler::Compiler {
  static constexpr int num_threads = 1;
  static constexpr bool is_cached = true;
  static constexpr std::int64_t cache_bytes = 20 << 20;  // of compiled grammars, the last used

  Compiler(const std::vector<std::string>& pieces, const std::vector<Token>& ends)
      : vocabulary(pieces, xgrammar::VocabType::RAW, static_cast<int>(pieces.size()),
                   std::vector<std::int32_t>(ends.begin(), ends.end())),
        compiler(vocabulary, num_threads, is_cached, cache_bytes),
        json_tokens(std::make_shared<const JsonTokens>(pieces)),
        sorted_tokens(std::make_shared<const SortedTokens>(pieces, ends)) {}

  std::unique_ptr<sampling::Constraint> compiled(const std::string& name, const xgrammar::Grammar& grammar,
                                                 const Call& or_call) {
    try {
      const xgrammar::Grammar either = or_call.grammar.empty() ? grammar : either_of(grammar, or_call);
      return std::make_unique<GrammarConstraint>(compiler.CompileGrammar(either), vocabulary.GetVocabSize(),
                                                 or_call.prefix);
    } catch (const XgrammarError&) {
      fail_to_compile(name);
    }
  }

  xgrammar::TokenizerInfo vocabulary;
  xgrammar::GrammarCompiler compiler;
  std::shared_ptr<const JsonTokens> json_tokens;
  std::shared_ptr<const SortedTokens> sorted_tokens;
};

ConstraintCompiler::ConstraintCompiler(const std::vector<std::string>& pieces, const std::vector<Token>& ends)
    : compiler_(std::make_unique<Compiler>(pieces, ends)) {}
ConstraintCompiler::~ConstraintCompiler() = default;

std::unique_ptr<sampling::Constraint> ConstraintCompiler::call(const Call& call) const {
  try {
    const xgrammar::CompiledGrammar grammar = compiler_->compiler.CompileGrammar(parsed_call(call));
    return std::make_unique<GrammarConstraint>(grammar, compiler_->vocabulary.GetVocabSize(), call.prefix);
  } catch (const XgrammarError&) {
    fail_to_compile("tools");
  }
}

std::unique_ptr<sampling::Constraint> ConstraintCompiler::grammar(const std::string& gbnf, const Call& or_call) const {
  return compiler_->compiled("grammar", parsed_grammar(gbnf, GrammarSource::client), or_call);
}

std::unique_ptr<sampling::Constraint> ConstraintCompiler::json_schema(const std::string& schema, bool is_strict,
                                                                      const Call& or_call, GrammarSource source) const {
  SchemaStyle style;
  style.is_strict = is_strict;
  style.source = source;
  SchemaGrammar grammar = schema_grammar(schema, style);
  auto constraint = compiler_->compiled(
      "json_schema", parsed("json_schema", [&] { return xgrammar::Grammar::FromEBNF(grammar.rules, grammar.root); }),
      or_call);
  if (grammar.places.places.empty()) return constraint;
  return limited_json(std::move(constraint), compiler_->json_tokens, std::move(grammar.places));
}

std::unique_ptr<sampling::Constraint> ConstraintCompiler::structural_tag(const std::string& tag, bool is_strict) const {
  constexpr const char* name = "structural_tag";
  const SupportedStructuralTag supported =
      supported_structural_tag(tag, is_strict, compiler_->vocabulary.GetVocabSize());
  std::unique_ptr<sampling::Constraint> constraint;
  const auto problem_of = [&](const std::string& text) {
    try {
      take_xgrammar_warning();
      auto made = xgrammar::Grammar::FromStructuralTag(text, compiler_->vocabulary);
      if (const auto* error = std::get_if<xgrammar::StructuralTagError>(&made))
        return problem_of_tag(std::visit([](const auto& one) { return std::string(one.what()); }, *error));
      const std::string warning = take_xgrammar_warning();
      if (!warning.empty()) return problem_of_tag(warning);
      constraint = compiler_->compiled(name, std::get<xgrammar::Grammar>(made), {});
      return std::string();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return problem_of_tag(error.what());
    }
  };
  const std::string problem = problem_of(supported.text);
  if (!problem.empty()) fail_at_place(supported, problem, problem_of);
  return constraint;
}

std::unique_ptr<sampling::Constraint> ConstraintCompiler::regex(const std::string& regex, const Call& or_call) const {
  check_constraint_text("regex", regex, max_regex_bytes);
  std::unique_ptr<sampling::Constraint> constraint =
      automaton_constraint(pattern_of("regex", regex).bytes(Pattern::Text::plain), compiler_->sorted_tokens);
  if (or_call.grammar.empty()) return constraint;
  return either_constraint(std::move(constraint), call(or_call));
}

}  // namespace specdec
