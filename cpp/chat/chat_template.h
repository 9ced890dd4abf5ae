// Formats a conversation with a model's chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "chat/chat_output.h"
#include "chat/chat_output_parsers.h"
#include "chat/jinja_template.h"
#include "pictures/picture_file.h"

namespace specdec {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// What a template formats. It is JSON, because templates read any fields that they know.
struct Conversation {
  std::string messages;               // a list of {"role": ..., "content": ..., ...}
  std::string tools = "null";         // a list of functions' JSON schemas; null: none
  bool add_generation_prompt = true;  // the prompt ends with the start of the assistant's answer
  std::string variables = "{}";       // further variables of the template: {"enable_thinking": false}
  // The last message is the beginning of the assistant's answer and is continued where it ends. Replaces
  // add_generation_prompt.
  bool continues_answer = false;
  PictureFiles pictures = {};  // whose marks (picture_mark()) stand in the messages
};

Conversation conversation(const std::vector<ChatMessage>& messages);

// What a model's file provides for templates.
struct ChatTexts {
  std::string path;                  // of the file, for messages
  std::string tmpl, tmpl_for_tools;  // Jinja templates; empty: none, or no separate one
  std::string bos, eos;              // the names that templates write; empty: none
};

// llama.cpp's names of its built-in formats: "chatml", "llama3", ...
std::vector<std::string> chat_template_names();

class ChatTemplate {
 public:
  // The model's own template; if it has none, one that joins the messages as plain text.
  static ChatTemplate of(const ChatTexts& model);

  // name_or_text: one of chat_template_names(), which llama.cpp implements in code, without tools or default system
  // prompts; or the text of a Jinja template. where: its name in errors. Throws std::invalid_argument.
  ChatTemplate(const std::string& name_or_text, std::string where);

  const std::string& text() const { return name_.empty() ? text_ : name_; }

  // Throws ModelError that names the template if it cannot be parsed, raises an exception or exceeds a limit
  // (jinja_template.h); std::invalid_argument for bad JSON and for an answer that cannot be continued.
  MarkedText render(const Conversation& conversation, const ChatTexts& model) const;

  // The parser for answers to a conversation; null if answers are all content, as far as is known: the template cannot
  // be understood, or the conversation has no tools and the template no reasoning.
  std::shared_ptr<const ChatOutputParser> output_parser(const Conversation& conversation, ToolUse tool_use,
                                                        const ChatTexts& model) const;

 private:
  ChatTemplate() = default;
  MarkedText render_whole(const Conversation& conversation, const ChatTexts& model) const;
  MarkedText render_fitted(const Conversation& conversation, const ChatTexts& model) const;
  std::shared_ptr<const ChatOutputParser> parser_for_fitted(const Conversation& conversation, ToolUse tool_use,
                                                            const ChatTexts& model) const;
  // In a form that the template takes (conversation_form.h).
  Conversation fitted(const Conversation& conversation, const ChatTexts& model) const;
  const std::string& text_for(bool has_tools) const {
    return has_tools && !text_for_tools_.empty() ? text_for_tools_ : text_;
  }

  std::string where_, name_, text_, text_for_tools_;  // name_: a built-in template's; otherwise there is a text
  std::shared_ptr<ChatOutputParsers> parsers_ = std::make_shared<ChatOutputParsers>();  // copies share it
  struct Forms;
  std::shared_ptr<Forms> forms_ = new_forms();  // likewise
  static std::shared_ptr<Forms> new_forms();
};

}  // namespace specdec
