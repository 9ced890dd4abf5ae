#include "chat/chat_template.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/json_depth.h"
#include "chat/call_form.h"
#include "chat/conversation_form.h"
#include "chat/json_argument.h"
#include "llama.h"

namespace specdec {
namespace {

constexpr const char* plain_template =
    "{% for message in messages %}{{ message.content }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}";

constexpr int max_argument_depth = 64;  // of objects and lists within the arguments of a call

bool is_built_in(const std::string& name) {
  const std::vector<std::string> names = chat_template_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<ChatMessage> messages_of(const Conversation& conversation) {
  const common_json list = json_argument("messages", conversation.messages);
  std::vector<ChatMessage> messages;
  for (const common_json& message : list) {
    const auto text = [&](const char* field) {
      if (message.is_object() && message.contains(field) && message.at(field).is_string())
        return message.at(field).get<std::string>();
      throw std::invalid_argument(std::string("a message has no \"") + field +
                                  "\" that is a string; llama.cpp's built-in templates need it");
    };
    messages.push_back({text("role"), text("content")});
  }
  return messages;
}

// Renders the messages in one of llama.cpp's built-in formats, which writes their contents one after another, perhaps
// without surrounding white space.
MarkedText built_in(const std::string& name, const Conversation& conversation) {
  if (!json_argument("tools", conversation.tools).empty()) {
    throw std::invalid_argument("the built-in template \"" + name +
                                "\" does not support tools; give the text of a Jinja template");
  }
  const std::vector<ChatMessage> messages = messages_of(conversation);
  std::vector<llama_chat_message> views;
  for (const ChatMessage& message : messages) views.push_back({message.role.c_str(), message.content.c_str()});
  MarkedText marked;
  int length = 0;
  do {
    marked.text.resize(idx(length));
    length = llama_chat_apply_template(name.c_str(), views.data(), views.size(), conversation.add_generation_prompt,
                                       marked.text.data(), static_cast<int>(marked.text.size()));
    if (length < 0) throw ModelError("the built-in template \"" + name + "\" cannot format these messages");
  } while (idx(length) > marked.text.size());
  marked.text.resize(idx(length));
  std::size_t from = 0;
  for (const ChatMessage& message : messages) {
    const std::size_t begin = message.content.find_first_not_of(" \t\n\v\f\r");
    if (begin == std::string::npos) continue;
    const std::string content =
        message.content.substr(begin, message.content.find_last_not_of(" \t\n\v\f\r") + 1 - begin);
    const std::size_t at = marked.text.find(content, from);
    if (at == std::string::npos) continue;
    from = at + content.size();
    marked.input.emplace_back(at, from);
  }
  return marked;
}

const std::string probe_value = "a probe";

// What a template makes of a call with these arguments, in JSON; empty if it rejects them.
std::string rendered_call(const JinjaTemplate& jinja, const std::string& arguments) {
  TemplateVariables variables;
  variables.messages =
      R"([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001",
    "type": "function", "function": {"name": "tool1", "arguments": )" +
      arguments + R"(}}]}, {"role": "tool", "name": "tool1",
    "tool_call_id": "call00001", "content": "Fine."}, {"role": "assistant", "content": "Fine."},
    {"role": "user", "content": "More?"}])";
  variables.tools =
      R"([{"type": "function", "function": {"name": "tool1", "description": "A tool.", "parameters": {"type": "object",
    "properties": {"argument": {"type": "string", "description": "A string."}}, "required": ["argument"]}}}])";
  try {
    return jinja.render(variables).text;
  } catch (const TemplateError&) {
    return "";
  }
}

// Whether a template accepts the arguments of a call as a string, whatever it holds.
bool takes_texts_as_arguments(const JinjaTemplate& jinja) {
  return rendered_call(jinja, '"' + probe_value + '"').find(probe_value) != std::string::npos;
}

// Whether a template accepts the arguments of a call as an object: it then writes them as JSON or in its own form.
// Python's form, with ', means that it expects a string, if it takes one.
bool takes_objects_as_arguments(const JinjaTemplate& jinja) {
  const std::string text = rendered_call(jinja, R"({"argument": ")" + probe_value + "\"}");
  if (text.find(probe_value) == std::string::npos) return false;
  return text.find("'" + probe_value) == std::string::npos || !takes_texts_as_arguments(jinja);
}

// Turns arguments of calls that are strings, as in the OpenAI API, into the objects that the strings hold. wraps: a
// text that is no object, such as a call that was cut off, becomes {"arguments": text}. Returns how many are objects
// then and how many are not.
struct NumArguments {
  int objects = 0, texts = 0;
};
NumArguments make_objects_of_arguments(common_json& messages, bool wraps = false) {
  NumArguments count;
  const auto is_list = [](common_json& json, const char* field) {
    return json.is_object() && json.contains(field) && json.at(field).is_array();
  };
  for (std::size_t i = 0; messages.is_array() && i < messages.size(); ++i) {
    if (!is_list(messages[i], "tool_calls")) continue;
    common_json& calls = messages[i]["tool_calls"];
    for (std::size_t k = 0; k < calls.size(); ++k) {
      if (!calls[k].is_object() || !calls[k].contains("function") || !calls[k]["function"].is_object()) continue;
      common_json& function = calls[k]["function"];
      if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
      const std::string text = function["arguments"].get<std::string>();
      if (json_depth(text) > max_argument_depth) continue;
      common_json object;
      try {
        object = common_json::parse(text);
      } catch (const common_json_error&) {  // it stays a string
      }
      if (!object.is_object() && wraps) {
        object = common_json::object();
        object["arguments"] = text;
      }
      ++(object.is_object() ? count.objects : count.texts);
      if (object.is_object()) function["arguments"] = object;
    }
  }
  return count;
}

// Most templates are written for transformers, which passes arguments of calls as objects; such templates would quote a
// string again.
Conversation as_expected(const Conversation& given, const std::string& template_text) {
  if (given.messages.find("\"tool_calls\"") == std::string::npos) return given;
  common_json messages = json_argument("messages", given.messages);
  const NumArguments count = make_objects_of_arguments(messages);
  if (count.objects + count.texts == 0) return given;
  const JinjaTemplate jinja(template_text);
  if (!takes_objects_as_arguments(jinja)) return given;
  if (count.texts > 0 && !takes_texts_as_arguments(jinja)) (void)make_objects_of_arguments(messages, true);
  Conversation conversation = given;
  conversation.messages = messages.dump_safe();
  return conversation;
}

// Marks where an answer is to be continued until the template has been run.
constexpr const char* end_mark = "[end-of-the-beginning-8d1f63a0]";

// The list of messages with the mark appended to the last one: to its text, or else to its reasoning.
std::string with_end_mark(const std::string& messages) {
  common_json list = json_argument("messages", messages);
  const auto fail = [](const char* problem) {
    throw std::invalid_argument(std::string("an answer can be continued only if the last message is ") + problem);
  };
  if (!list.is_array() || list.empty()) fail("the assistant's");
  common_json& last = list[list.size() - 1];
  const auto has = [&](const char* field) {
    return last.contains(field) && last.at(field).is_string() && !last.at(field).get<std::string>().empty();
  };
  if (!last.is_object() || !last.contains("role") || last.at("role") != "assistant") fail("the assistant's");
  if (last.contains("tool_calls") && !last.at("tool_calls").empty()) fail("one without tool calls");
  if (last.contains("content") && !last.at("content").is_string() && !last.at("content").is_null()) fail("one text");
  const char* const field = !has("content") && has("reasoning_content") ? "reasoning_content" : "content";
  last[field] = (has(field) ? last.at(field).get<std::string>() : std::string()) + end_mark;
  return list.dump_safe();
}

// The conversation without its last message.
Conversation without_last(const Conversation& given) {
  common_json list = json_argument("messages", given.messages);
  if (list.is_array() && !list.empty()) list.erase(list.size() - 1);
  Conversation conversation = given;
  conversation.messages = list.dump_safe();
  conversation.continues_answer = false;
  conversation.add_generation_prompt = true;
  return conversation;
}

}  // namespace

Conversation conversation(const std::vector<ChatMessage>& messages) {
  common_json list = common_json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  Conversation result;
  result.messages = list.dump_safe();
  return result;
}

std::vector<std::string> chat_template_names() {
  std::vector<const char*> names(idx(llama_chat_builtin_templates(nullptr, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  return {names.begin(), names.end()};
}

ChatTemplate ChatTemplate::of(const ChatTexts& model) {
  if (model.tmpl.empty()) return {plain_template, "the template for models without one"};
  ChatTemplate own;
  own.where_ = model.path;
  own.text_ = model.tmpl;
  own.text_for_tools_ = model.tmpl_for_tools;
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

// The forms of the template's texts, each found once.
struct ChatTemplate::Forms {
  std::mutex mutex;
  // By whether there are tools, which some templates write into a message.
  std::map<std::pair<std::string, bool>, std::shared_ptr<const ConversationForm>> of_text;
};

std::shared_ptr<ChatTemplate::Forms> ChatTemplate::new_forms() { return std::make_shared<Forms>(); }

Conversation ChatTemplate::fitted(const Conversation& conversation, const ChatTexts& model) const {
  if (!name_.empty()) return conversation;
  const bool has_tools = !json_argument("tools", conversation.tools).empty();
  const std::string& text = text_for(has_tools);
  const auto find_form = [&] {
    TemplateVariables variables;
    variables.bos_token = model.bos;
    variables.eos_token = model.eos;
    if (has_tools) variables.tools = probe_tool();
    const JinjaTemplate jinja(text);
    return std::make_shared<const ConversationForm>([&](const std::string& messages) {
      variables.messages = messages;
      return jinja.render(variables).text;
    });
  };
  std::shared_ptr<const ConversationForm> form;
  try {
    const std::lock_guard<std::mutex> lock(forms_->mutex);
    std::shared_ptr<const ConversationForm>& known = forms_->of_text[{text, has_tools}];
    if (!known) known = find_form();
    form = known;
  } catch (const TemplateError&) {  // rendering reports it
    return conversation;
  }
  Conversation result = conversation;
  result.messages = form->fit(conversation.messages);
  return result;
}

MarkedText ChatTemplate::render(const Conversation& conversation, const ChatTexts& model) const {
  return render_fitted(fitted(conversation, model), model);
}

MarkedText ChatTemplate::render_fitted(const Conversation& conversation, const ChatTexts& model) const {
  if (!conversation.continues_answer) return render_whole(conversation, model);
  Conversation marked = conversation;
  marked.messages = with_end_mark(conversation.messages);
  marked.add_generation_prompt = false;
  MarkedText prompt = render_whole(marked, model);
  const std::size_t end = prompt.text.rfind(end_mark);
  if (end == std::string::npos) {
    throw std::invalid_argument("the answer cannot be continued: the chat template does not write its end");
  }
  prompt.text.resize(end);
  while (!prompt.input.empty() && prompt.input.back().first >= end) prompt.input.pop_back();
  if (!prompt.input.empty()) prompt.input.back().second = std::min(prompt.input.back().second, end);
  return prompt;
}

MarkedText ChatTemplate::render_whole(const Conversation& conversation, const ChatTexts& model) const {
  if (!name_.empty()) return built_in(name_, conversation);
  const std::string& text = text_for(!json_argument("tools", conversation.tools).empty());
  TemplateVariables variables;
  variables.tools = conversation.tools;
  variables.add_generation_prompt = conversation.add_generation_prompt;
  variables.bos_token = model.bos;
  variables.eos_token = model.eos;
  variables.others = conversation.variables;
  try {
    variables.messages = as_expected(conversation, text).messages;
    return JinjaTemplate(text).render(variables);
  } catch (const TemplateError& error) {
    throw ModelError(where_ + ": the chat template: " + error.what());
  }
}

std::shared_ptr<const ChatOutputParser> ChatTemplate::output_parser(const Conversation& conversation, ToolUse tool_use,
                                                                    const ChatTexts& model) const {
  return parser_for_fitted(fitted(conversation, model), tool_use, model);
}

std::shared_ptr<const ChatOutputParser> ChatTemplate::parser_for_fitted(const Conversation& conversation,
                                                                        ToolUse tool_use,
                                                                        const ChatTexts& model) const {
  if (conversation.continues_answer) {
    const Conversation before = without_last(conversation);
    const std::shared_ptr<const ChatOutputParser> parser = parser_for_fitted(before, tool_use, model);
    if (!parser) return nullptr;
    const std::string start = render_whole(before, model).text, whole = render_fitted(conversation, model).text;
    const bool is_answer = whole.compare(0, start.size(), start) == 0;
    return is_answer ? std::make_shared<const ChatOutputParser>(parser->after(whole.substr(start.size()))) : nullptr;
  }
  const bool has_tools = !json_argument("tools", conversation.tools).empty();
  const std::string& text = text_for(has_tools);
  // Templates that handle reasoning contain this word, as in <think> and enable_thinking.
  if (!has_tools && text.find("think") == std::string::npos) return nullptr;
  return parsers_->get(text, as_expected(conversation, text), tool_use, model.bos, model.eos);
}

}  // namespace specdec
