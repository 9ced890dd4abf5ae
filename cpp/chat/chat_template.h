// Formats a conversation with a model's chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "chat/chat_output.h"
#include "chat/chat_output_parsers.h"
#include "chat/jinja_template.h"

namespace specdec {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// What a template formats, in JSON, because templates read whatever fields they know.
struct Conversation {
  std::string messages;               // a list of {"role": ..., "content": ..., ...}
  std::string tools = "null";         // a list of functions' JSON schemas; null: none
  bool add_generation_prompt = true;  // ends with the start of the assistant's answer
  std::string variables = "{}";       // what else the template may know, by name: {"enable_thinking": false}
  // The last message is the beginning of the assistant's answer, which goes on where it ends; instead of
  // add_generation_prompt.
  bool continues_answer = false;
};

Conversation conversation(const std::vector<ChatMessage>& messages);

// What a model's file says for templates.
struct ChatTexts {
  std::string path;                  // of the file, for messages
  std::string tmpl, tmpl_for_tools;  // Jinja templates; empty: none, or not another one
  std::string bos, eos;              // as the templates write them; empty: none
};

// The names that llama.cpp has for some formats: "chatml", "llama3", ...
std::vector<std::string> chat_template_names();

class ChatTemplate {
 public:
  // The model's own. Throws ModelError without one.
  static ChatTemplate of(const ChatTexts& model);

  // One of chat_template_names(), which llama.cpp writes in code of its own, without tools or default system prompts;
  // or the text of a Jinja template. where: what errors call it. Throws std::invalid_argument.
  ChatTemplate(const std::string& name_or_text, std::string where);

  const std::string& text() const { return name_.empty() ? text_ : name_; }

  // Throws ModelError that names the template, if it cannot be parsed, raises an exception or exceeds a limit
  // (jinja_template.h); std::invalid_argument for bad JSON, and for an answer that cannot be continued.
  MarkedText render(const Conversation& conversation, const ChatTexts& model) const;

  // For the answers to a conversation; null if everything in them is content, as far as is known: the template cannot
  // be understood, or the conversation has no tools and the template no reasoning.
  std::shared_ptr<const ChatOutputParser> output_parser(const Conversation& conversation, ToolUse tool_use,
                                                        const ChatTexts& model) const;

 private:
  ChatTemplate() = default;
  MarkedText render_whole(const Conversation& conversation, const ChatTexts& model) const;
  const std::string& text_for(bool has_tools) const {
    return has_tools && !text_for_tools_.empty() ? text_for_tools_ : text_;
  }

  std::string where_, name_, text_, text_for_tools_;  // name_: of a built-in one; or a text
  std::shared_ptr<ChatOutputParsers> parsers_ = std::make_shared<ChatOutputParsers>();  // of its copies, too
};

}  // namespace specdec
