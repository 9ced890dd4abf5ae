#include "engine/call_grammar.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/argument.h"
#include "constraints/schema_grammar.h"

namespace specdec {
namespace {

constexpr int max_whitespace = 1;  // without a limit a model might write spaces for ever

std::string replaced(const std::string& text, const std::string& old, const std::string& by) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(old, at)) != std::string::npos; at = found + old.size())
    out += text.substr(at, found - at) + by;
  return out + text.substr(at);
}

template <class Action>
auto with_names(const ToolSchemas& tools, Action action) {
  try {
    return action();
  } catch (const ArgumentError& error) {
    throw ArgumentError("tools", tools.named(error.problem()));
  }
}

}  // namespace

Request::Call call_grammar(const ToolSchemas& tools, const ChatOutputParser::Grammar& grammar) {
  Request::Call call;
  call.grammar = grammar.text;
  call.prefix = grammar.prefix;
  std::vector<std::string> pointers, ignored = grammar.ignored;
  for (const SchemaMark& mark : grammar.marks) pointers.push_back(mark.pointer);
  if (!pointers.empty()) {
    const SchemaStyle style{false, false, max_whitespace, "arguments", GrammarSource::ours};
    SchemaParts parts = with_names(tools, [&] { return schema_parts(tools.document, pointers, style); });
    for (std::size_t i = 0; i < pointers.size(); ++i)
      call.grammar = replaced(call.grammar, '"' + grammar.marks[i].text + '"', parts.roots[i]);
    call.rules = std::move(parts.rules);
    call.names = {parts.roots.begin(), parts.roots.end()};
    ignored.insert(ignored.end(), parts.ignored.begin(), parts.ignored.end());
  }
  for (const std::string& pointer : ignored) call.ignored.push_back(tools.named(pointer));
  return call;
}

std::vector<std::string> checked_schemas(const ToolSchemas& tools, const std::string& schema_of_calls) {
  SchemaStyle style;
  style.is_strict = false;
  style.source = GrammarSource::ours;
  std::vector<std::string> places = with_names(tools, [&] { return schema_grammar(schema_of_calls, style).ignored; });
  for (std::string& place : places) place = tools.named(place);
  return places;
}

}  // namespace specdec
