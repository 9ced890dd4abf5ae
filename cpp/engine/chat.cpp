#include "engine/chat.h"

#include <stdexcept>

#include "engine/prompt.h"

namespace specdec {
namespace {

ChatTexts texts_of(const Model& model) {
  const Vocabulary vocabulary = model.vocabulary();
  return {model.path(), model.chat_template(), model.chat_template(true), vocabulary.name(vocabulary.bos()),
          vocabulary.name(vocabulary.eos())};
}

}  // namespace

Chat::Chat(const Model& target, const std::optional<std::string>& given, int n_ctx)
    : vocabulary_(target.vocabulary()), texts_(texts_of(target)), n_ctx_(n_ctx) {
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
  if (request.constraint() != nullptr) {  // then all text is the content that was asked for
    if (tool_use.is_required)
      throw std::invalid_argument("tool_choice requires a call, but the text is constrained; give one of both");
    return nullptr;
  }
  std::shared_ptr<const ChatOutputParser> parser = chat_template().output_parser(conversation, tool_use, texts_);
  if (parser) request.control_tokens = control_tokens(parser->control_tokens());
  if (!tool_use.is_required) return parser;
  if (conversation.continues_answer)
    throw std::invalid_argument("tool_choice requires a call, which cannot continue a message");
  if (!parser || parser->grammar().text.empty()) {
    throw std::invalid_argument(
        "tool_choice requires a call, but the model's chat template does not say how it writes one");
  }
  request.grammar = parser->grammar().text;
  request.grammar_prefix = parser->grammar().prefix;
  return parser;
}

// The control tokens of the target among these names.
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
