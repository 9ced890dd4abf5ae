// Turns conversations into prompts with the target's chat template, which also says how to parse answers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_output.h"
#include "chat/chat_template.h"
#include "engine/picture_reader.h"
#include "engine/request.h"
#include "llama/model.h"
#include "llama/vocabulary.h"

namespace specdec {

class Chat {
 public:
  // given: the name or text of a template to use instead of the model's own. Throws std::invalid_argument, ModelError.
  // reader: of pictures; must outlive the chat.
  Chat(const Model& target, PictureReader& reader, const std::optional<std::string>& given, int n_ctx,
       JsonCalls json_calls = JsonCalls::without_others);

  // Without one, messages are joined as plain text.
  bool has_template() const { return has_template_; }
  std::string template_text() const { return has_template_ ? template_.text() : ""; }  // or its name
  void set_template(ChatTemplate chat_template);                                       // before the first request

  // The conversation as a prompt, and the tokens of that prompt. Throw ModelError, std::invalid_argument; tokens()
  // ContextFull, and Cancelled once `cancelled` returns true.
  MarkedText prompt(const Conversation& conversation) const;
  Text tokens(const Conversation& conversation, const std::function<bool()>& cancelled = {}) const;
  // The number of these tokens, also if they do not fit the context.
  std::size_t num_tokens(const Conversation& conversation, const std::function<bool()>& cancelled = {}) const;

  // Whether the template says how tool calls are written.
  bool writes_calls() const;

  // Prepares a request for the answer to a conversation; the conversation's tools may be called. Control tokens that
  // mark tool calls and reasoning appear in the text by name. A required call becomes the request's constraint and
  // replaces a schema; a call that is not required becomes the alternative to the schema. Returns the parser of the
  // answer, or null if the whole answer is content: because no parser is known (ChatTemplate::output_parser()), or
  // because the request has a constraint of its own. Throws std::invalid_argument that names tool_choice if a call is
  // required but the template has none, or if the request has a grammar or a regular expression.
  std::shared_ptr<const ChatOutputParser> prepare_answer(const Conversation& conversation, ToolUse tool_use,
                                                         Request& request) const;

 private:
  static void require_call(const Conversation& conversation, const ChatOutputParser* parser, Request& request);
  bool may_call_instead(const Conversation& conversation, ToolUse tool_use, Request& request) const;
  std::vector<Token> control_tokens(const std::vector<std::string>& names) const;

  const Vocabulary vocabulary_;
  const ChatTexts texts_;  // the target's
  PictureReader& reader_;
  const int n_ctx_;
  const JsonCalls json_calls_;
  bool has_template_;  // the model's own, or one that was given
  ChatTemplate template_;
};

}  // namespace specdec
