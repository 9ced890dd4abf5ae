#include "engine/chat.h"

#include <exception>
#include <limits>
#include <stdexcept>
#include <utility>

#include "chat/call_form.h"
#include "chat/json_calls.h"
#include "chat/tool_schemas.h"
#include "engine/call_grammar.h"
#include "engine/prompt.h"

namespace specdec {
namespace {

ChatTexts texts_of(const Model& model) {
  const Vocabulary vocabulary = model.vocabulary();
  return {model.path(), model.chat_template(), model.chat_template(true), vocabulary.name(vocabulary.bos()),
          vocabulary.name(vocabulary.eos())};
}

}  // namespace

Chat::Chat(const Model& target, PictureReader& reader, const std::optional<std::string>& given, int n_ctx,
           JsonCalls json_calls)
    : vocabulary_(target.vocabulary()),
      texts_(texts_of(target)),
      reader_(reader),
      n_ctx_(n_ctx),
      json_calls_(json_calls),
      has_template_(given || !texts_.tmpl.empty()),
      template_(given ? ChatTemplate(*given, "chat_template") : ChatTemplate::of(texts_)) {}

void Chat::set_template(ChatTemplate chat_template) {
  template_ = std::move(chat_template);
  has_template_ = true;
}

MarkedText Chat::prompt(const Conversation& conversation) const { return template_.render(conversation, texts_); }

Text Chat::tokens(const Conversation& conversation, const std::function<bool()>& cancelled) const {
  return read_prompt(vocabulary_, reader_, prompt(conversation), conversation.pictures, n_ctx_, cancelled);
}

std::size_t Chat::num_tokens(const Conversation& conversation, const std::function<bool()>& cancelled) const {
  constexpr int no_limit = std::numeric_limits<int>::max();
  return read_prompt(vocabulary_, reader_, prompt(conversation), conversation.pictures, no_limit, cancelled)
      .tokens.size();
}

bool Chat::writes_calls() const {
  const Conversation conversation{R"([{"role": "user", "content": "Hello?"}])", probe_tool()};
  const ToolUse use{true, false, JsonCalls::never};
  try {
    const auto parser = template_.output_parser(conversation, use, texts_);
    return parser && parser->writes_calls();
  } catch (const std::exception&) {  // it refuses even this
    return false;
  }
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
  std::shared_ptr<const ChatOutputParser> parser = template_.output_parser(conversation, tool_use, texts_);
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
    request.call = call_grammar(tool_schemas(conversation.tools), parser->grammar());
  } else if (parser != nullptr && parser->reads_json_calls()) {
    const ToolSchemas tools = tool_schemas(conversation.tools);
    request.json_schema = schema_of_json_call(tools);
    request.ignored_keywords = checked_schemas(tools, *request.json_schema);
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
  const auto caller = template_.output_parser(conversation, tool_use, texts_);
  if (!caller || caller->grammar().text.empty()) return false;
  if (caller->reasoning().is_open) return false;
  request.call = call_grammar(tool_schemas(conversation.tools), caller->grammar());
  return true;
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
