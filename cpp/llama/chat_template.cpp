#include "llama/chat_template.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "json.h"
#include "llama.h"

namespace specdec {
namespace {

// Empty if there is none. variant: null, or "tool_use".
std::string template_of(const Model& model, const char* variant) {
  const char* text = llama_model_chat_template(model.get(), variant);
  return text == nullptr ? "" : text;
}

bool is_built_in(const std::string& name) {
  const std::vector<std::string> names = chat_template_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

common_json parsed(const char* name, const std::string& text) {
  try {
    return common_json::parse(text);
  } catch (const common_json_error& error) {
    throw std::invalid_argument(std::string(name) + ": not JSON: " + error.what());
  }
}

std::vector<ChatMessage> messages_of(const Conversation& conversation) {
  const common_json list = parsed("messages", conversation.messages);
  std::vector<ChatMessage> messages;
  for (const common_json& message : list) {
    const auto text = [&](const char* field) {
      if (message.is_object() && message.contains(field) && message.at(field).is_string()) return message.at(field).get<std::string>();
      throw std::invalid_argument(std::string("a message has no \"") + field +
                                  "\" that is a string; llama.cpp's built-in templates know no other messages");
    };
    messages.push_back({text("role"), text("content")});
  }
  return messages;
}

// The messages in one of llama.cpp's built-in formats. Their contents are written one after the other, perhaps without the white
// space around them.
MarkedText built_in(const std::string& name, const Conversation& conversation) {
  if (!parsed("tools", conversation.tools).empty()) {
    throw std::invalid_argument("the built-in template \"" + name + "\" knows no tools; give the text of a Jinja template");
  }
  const std::vector<ChatMessage> messages = messages_of(conversation);
  std::vector<llama_chat_message> views;
  for (const ChatMessage& message : messages) views.push_back({message.role.c_str(), message.content.c_str()});
  MarkedText marked;
  int length = 0;
  do {
    marked.text.resize(static_cast<std::size_t>(length));
    length = llama_chat_apply_template(name.c_str(), views.data(), views.size(), conversation.add_generation_prompt, marked.text.data(),
                                       static_cast<int>(marked.text.size()));
    if (length < 0) throw ModelError("the built-in template \"" + name + "\" cannot format these messages");
  } while (static_cast<std::size_t>(length) > marked.text.size());
  marked.text.resize(static_cast<std::size_t>(length));
  std::size_t from = 0;
  for (const ChatMessage& message : messages) {
    const std::size_t begin = message.content.find_first_not_of(" \t\n\v\f\r");
    if (begin == std::string::npos) continue;
    const std::string content = message.content.substr(begin, message.content.find_last_not_of(" \t\n\v\f\r") + 1 - begin);
    const std::size_t at = marked.text.find(content, from);
    if (at == std::string::npos) continue;
    from = at + content.size();
    marked.input.emplace_back(at, from);
  }
  return marked;
}

std::string written(const Vocabulary& vocabulary, Token token) { return token < 0 ? "" : vocabulary.piece(token, true); }

}  // namespace

Conversation conversation(const std::vector<ChatMessage>& messages) {
  common_json list = common_json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  Conversation result;
  result.messages = list.dump_safe();
  return result;
}

bool has_chat_template(const Model& model) { return !template_of(model, nullptr).empty(); }

std::vector<std::string> chat_template_names() {
  std::vector<const char*> names(static_cast<std::size_t>(llama_chat_builtin_templates(nullptr, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  return {names.begin(), names.end()};
}

ChatTemplate ChatTemplate::of(const Model& model) {
  ChatTemplate own;
  own.where_ = model.path();
  own.text_ = template_of(model, nullptr);
  own.text_for_tools_ = template_of(model, "tool_use");
  if (own.text_.empty()) throw ModelError(model.path() + ": the model has no chat template; give one, or a prompt without one");
  return own;
}

ChatTemplate::ChatTemplate(const std::string& name_or_text, std::string where) : where_(std::move(where)) {
  if (is_built_in(name_or_text)) name_ = name_or_text;
  else text_ = name_or_text;
  const bool is_text = text_.find("{{") != std::string::npos || text_.find("{%") != std::string::npos;
  if (name_.empty() && !is_text) {
    throw std::invalid_argument("\"" + name_or_text +
                                "\" is neither a chat template that llama.cpp has nor the text of one, with {{ or {%");
  }
}

MarkedText ChatTemplate::render(const Conversation& conversation, const Vocabulary& vocabulary) const {
  if (!name_.empty()) return built_in(name_, conversation);
  const bool has_tools = !parsed("tools", conversation.tools).empty();
  TemplateVariables variables;
  variables.messages = conversation.messages;
  variables.tools = conversation.tools;
  variables.add_generation_prompt = conversation.add_generation_prompt;
  variables.bos_token = written(vocabulary, vocabulary.bos());
  variables.eos_token = written(vocabulary, vocabulary.eos());
  try {
    return JinjaTemplate(text_for(has_tools)).render(variables);
  } catch (const TemplateError& error) {
    throw ModelError(where_ + ": the chat template: " + error.what());
  }
}

std::shared_ptr<const ChatOutputParser> ChatTemplate::output_parser(const Conversation& conversation, bool parallel,
                                                                    const Vocabulary& vocabulary) const {
  const bool has_tools = !parsed("tools", conversation.tools).empty();
  const std::string& text = text_for(has_tools);
  // Deriving a parser takes some 20 ms. Templates that know thoughts have this word, as in <think> and enable_thinking.
  if (!has_tools && text.find("think") == std::string::npos) return nullptr;
  auto parser = std::make_shared<const ChatOutputParser>(text, conversation, parallel, written(vocabulary, vocabulary.bos()),
                                                         written(vocabulary, vocabulary.eos()));
  return parser->understands_template() ? parser : nullptr;
}

}  // namespace specdec
