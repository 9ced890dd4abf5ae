#include "engine/chat.h"

#include <stdexcept>

#include "base/argument.h"
#include "chat/json_calls.h"
#include "chat/tool_schemas.h"
#include "constraints/schema_grammar.h"
#include "engine/prompt.h"

namespace specdec {
namespace {

ChatTexts texts_of(const Model& model) {
  const Vocabulary vocabulary = model.vocabulary();
  return {model.path(), model.chat_template(), model.chat_template(true), vocabulary.name(vocabulary.bos()),
          vocabulary.name(vocabulary.eos())};
}

constexpr int max_whitespace_in_calls = 1;  // without a limit a model might write spaces for ever

std::string replaced(const std::string& text, const std::string& old, const std::string& by) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(old, at)) != std::string::npos; at = found + old.size())
    out += text.substr(at, found - at) + by;
  return out + text.substr(at);
}

// Errors about a schema name the tool and the place in its parameters.
template <class Action>
void with_names(const ToolSchemas& tools, Action action) {
  try {
    action();
  } catch (const ArgumentError& error) {
    throw ArgumentError("tools", tools.named(error.problem()));
  }
}

}  // namespace

Chat::Chat(const Model& target, const std::optional<std::string>& given, int n_ctx, JsonCalls json_calls)
    : vocabulary_(target.vocabulary()), texts_(texts_of(target)), n_ctx_(n_ctx), json_calls_(json_calls) {
  if (given) template_ = ChatTemplate(*given, "chat_template");
  else if (!texts_.tmpl.empty()) template_ = ChatTemplate::of(texts_);
}

const ChatTemplate& Chat::chat_template() const {
  if (!template_) (void)ChatTemplate::of(texts_);  // throws
  return *template_;
}

MarkedText Chat::prompt(const Conversation& conversation) const { return chat_template().render(conversation, texts_); }

std::vector<Token> Chat::tokens(const Conversation& conversation, const std::function<bool()>& cancelled) const {
  return tokenize_prompt(vocabulary_, prompt(conversation), n_ctx_, cancelled);
}

std::shared_ptr<const ChatOutputParser> Chat::prepare_answer(const Conversation& conversation, ToolUse tool_use,
                                                             Request& request) const {
  if (request.grammar || request.regex || request.choice) {  // then all text is the content that was asked for
    if (tool_use.is_required)
      throw std::invalid_argument("tool_choice requires a call, but the text is constrained; give only one of them");
    return nullptr;
  }
  tool_use.json = json_calls_;
  if (request.structural_tag && tool_use.is_required)
    throw std::invalid_argument(
        "tool_choice requires a call, but the text has a structural tag; give only one of them");
  const bool has_format = request.json_schema.has_value();
  std::shared_ptr<const ChatOutputParser> parser = chat_template().output_parser(conversation, tool_use, texts_);
  if (has_format && !tool_use.is_required && !may_call_instead(conversation, tool_use, request)) return nullptr;
  if (parser) request.control_tokens = control_tokens(parser->control_tokens());
  const bool may_reason = parser && !conversation.continues_answer && request.constraint() == nullptr;
  if (may_reason && !parser->reasoning().begin.empty()) {
    const ChatOutputParser::Reasoning& marks = parser->reasoning();
    request.reasoning = {marks.begin, marks.end, marks.is_open};
  }
  if (tool_use.is_required) require_call(conversation, parser.get(), request);
  if (!tool_use.is_parallel) request.one_call = parser;
  return parser;
}

// A response format applies to the message's text, and an answer with calls has no text, so the schema is dropped.
void Chat::require_call(const Conversation& conversation, const ChatOutputParser* parser, Request& request) {
  if (conversation.continues_answer)
    throw std::invalid_argument("tool_choice requires a call, which cannot continue a message");
  request.json_schema.reset();
  if (parser != nullptr && !parser->grammar().text.empty()) {
    set_call(conversation.tools, parser->grammar(), request);
  } else if (parser != nullptr && parser->reads_json_calls()) {
    const ToolSchemas tools = tool_schemas(conversation.tools);
    request.json_schema = schema_of_json_call(tools);
    with_names(tools, [&] {
      SchemaStyle style;
      style.is_strict = false;
      style.source = GrammarSource::ours;
      (void)schema_grammar(*request.json_schema, style);
    });
    request.strict_schema = false;
    request.constraint_name = "tools";
  } else {
    throw std::invalid_argument(
        "tool_choice requires a call, but the model's chat template does not say how it writes one");
  }
}

// Whether an answer that must follow a format may be a call instead. It may not if the template does not say how a call
// is written, or if the prompt ends inside reasoning, which the format has no place for.
bool Chat::may_call_instead(const Conversation& conversation, ToolUse tool_use, Request& request) const {
  tool_use.is_required = true;
  const auto caller = chat_template().output_parser(conversation, tool_use, texts_);
  if (!caller || caller->grammar().text.empty()) return false;
  if (caller->reasoning().is_open) return false;
  set_call(conversation.tools, caller->grammar(), request);
  return true;
}

// The grammar of a call with rules of ours for its arguments.
void Chat::set_call(const std::string& tools, const ChatOutputParser::Grammar& grammar, Request& request) {
  const ToolSchemas schemas = tool_schemas(tools);
  Request::Call call;
  call.grammar = grammar.text;
  call.prefix = grammar.prefix;
  std::vector<std::string> pointers, ignored = grammar.ignored;
  for (const SchemaMark& mark : grammar.marks) pointers.push_back(mark.pointer);
  if (!pointers.empty()) {
    SchemaStyle style{false, false, max_whitespace_in_calls, "arguments", GrammarSource::ours};
    SchemaParts parts;
    with_names(schemas, [&] { parts = schema_parts(schemas.document, pointers, style); });
    for (std::size_t i = 0; i < pointers.size(); ++i)
      call.grammar = replaced(call.grammar, '"' + grammar.marks[i].text + '"', parts.roots[i]);
    call.rules = std::move(parts.rules);
    call.names = {parts.roots.begin(), parts.roots.end()};
    ignored.insert(ignored.end(), parts.ignored.begin(), parts.ignored.end());
  }
  for (const std::string& pointer : ignored) call.ignored.push_back(schemas.named(pointer));
  request.call = std::move(call);
}

// Those of these names that are control tokens of the target.
std::vector<Token> Chat::control_tokens(const std::vector<std::string>& names) const {
  std::vector<Token> tokens;
  for (const std::string& name : names) {
    for (const Token token : vocabulary_.tokenize(name, true)) {
      if (vocabulary_.piece(token, true) == name && vocabulary_.piece(token).empty()) tokens.push_back(token);
    }
  }
  return tokens;
}

}  // namespace specdec
