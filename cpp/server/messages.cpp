#include "server/messages.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "server/picture_parts.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

// Calls in OpenAI's form, from those that servers and clients write: without an id or a type, with arguments that are
// an object, missing, null or blank.
Json read_calls(const std::string& path, const Json& calls) {
  if (!calls.is_array()) throw wrong_value(path, calls, "a list");
  Json result = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Fields call(calls[i], path + "[" + std::to_string(i) + "]");
    const Fields function(call.required("function"), call.path("function"));
    Json read = calls[i];
    if (call.find("id") == nullptr) read["id"] = "call_" + std::to_string(i);
    if (call.find("type") == nullptr) read["type"] = "function";
    (void)function.required_text("name");
    read["function"]["arguments"] = read_arguments(function);
    result.push_back(std::move(read));
  }
  return result;
}

// The text of an assistant's message and its reasoning, of a string or of parts.
void read_answer(const Fields& message, Json& json) {
  const Json* content = message.find("content");
  std::string text, reasoning = message.text("reasoning_content", "");
  const Json* other = message.find("reasoning");  // the name of vLLM and others
  if (reasoning.empty() && other != nullptr && other->is_string()) reasoning = other->get<std::string>();
  const auto add = [](std::string& to, const std::string& more) {
    to += (to.empty() || more.empty() ? "" : "\n") + more;
  };
  if (content != nullptr && content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i) {
      const Fields part((*content)[i], message.path("content") + "[" + std::to_string(i) + "]");
      const std::string type = part.required_text("type");
      if (type == "thinking" || type == "reasoning") {
        const char* const field = part.find(type) != nullptr ? type.c_str() : "text";
        add(reasoning, read_content(part.path(field), part.required(field), {"text"}));
      } else if (type == "refusal") {
        add(text, part.required_text("refusal"));
      } else if (type == "text" || type == "output_text") {
        add(text, part.required_text("text"));
      } else {
        throw wrong_value(part.path("type"), type, R"("text", "refusal" or "thinking"; only text is supported)");
      }
    }
  } else if (content != nullptr) {
    text = read_content(message.path("content"), *content, {"text"});
  } else {
    text = message.text("refusal", "");
  }
  json["content"] = text;
  if (!reasoning.empty()) json["reasoning_content"] = reasoning;
  const Json *calls = message.find("tool_calls"), *call = message.find("function_call");
  json.erase("function_call");
  if (calls != nullptr && !calls->empty()) {
    json["tool_calls"] = read_calls(message.path("tool_calls"), *calls);
  } else if (call != nullptr) {  // of OpenAI's older API
    Json one = Json::object();
    one["function"] = *call;
    json["tool_calls"] = read_calls(message.path("function_call"), Json::array({std::move(one)}));
  } else {
    json.erase("tool_calls");
  }
}

Json read_message(const Fields& message, Json json, const PictureRead& read_picture) {
  const std::string role = read_role(message);
  json["role"] = role == "developer" ? "system" : role == "function" ? "tool" : role;
  if (role == "assistant") {
    read_answer(message, json);
    return json;
  }
  const Json* content = message.find("content");
  if (content != nullptr) json["content"] = read_content(message.path("content"), *content, {"text"}, read_picture);
  else if (role == "tool" || role == "function" || json.contains("content")) json["content"] = "";  // null is empty
  else throw invalid_request(message.path("content"), message.path("content") + " is missing");
  return json;
}

bool is_blank(const Json& text) {
  return !text.is_string() || text.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
}

// Whether an assistant's message has neither text nor calls: what a failed answer leaves behind.
bool says_nothing(const Json& message) {
  return message["role"] == "assistant" && !message.contains("tool_calls") && is_blank(message["content"]) &&
         is_blank(message.value("reasoning_content", Json("")));
}

// Reads vLLM's "continue_final_message"; without it, applies llama-server's rule.
bool continues_answer(const Service& service, const Fields& body, const Json& last) {
  const bool is_answer = last["role"] == "assistant" && (!last.contains("tool_calls") || last["tool_calls"].empty());
  if (body.find("continue_final_message") == nullptr) {
    return is_answer && !says_nothing(last) && service.options().continues_answers &&
           body.find("add_generation_prompt") == nullptr;
  }
  if (!body.flag("continue_final_message", false)) return false;
  if (body.flag("add_generation_prompt", false))
    throw invalid_request("continue_final_message",
                          "continue_final_message and add_generation_prompt exclude each other");
  if (!is_answer)
    throw invalid_request("continue_final_message",
                          "continue_final_message needs an assistant message without tool calls at the end");
  return true;
}

// How much the model reasons, under the names that templates use. Reads OpenAI's "reasoning_effort" or, of responses,
// "reasoning": {"effort": ...}.
void add_effort(const Fields& body, Json& variables) {
  std::string effort = body.text("reasoning_effort", "");
  if (const Json* reasoning = body.find("reasoning")) effort = Fields(*reasoning, "reasoning").text("effort", effort);
  if (effort == "none") variables["enable_thinking"] = false;
  else if (!effort.empty()) variables["reasoning_effort"] = effort;
}

}  // namespace

std::string read_role(const Fields& message) {
  static const char* const known[] = {"system", "developer", "user", "assistant", "tool", "function"};
  const std::string role = message.required_text("role");
  if (std::find(std::begin(known), std::end(known), role) != std::end(known)) return role;
  throw wrong_value(message.path("role"), role, R"("system", "developer", "user", "assistant" or "tool")");
}

std::string read_arguments(const Fields& function) {
  const Json* arguments = function.find("arguments");
  if (arguments == nullptr || (arguments->is_string() && is_blank(*arguments))) return "{}";
  if (arguments->is_object()) return to_text(*arguments);
  const std::string text = function.required_text("arguments");
  check_json_text(function.path("arguments"), text);
  return text;
}

std::string read_content(const std::string& path, const Json& content, const std::vector<std::string>& types,
                         const PictureRead& read_picture) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw wrong_value(path, content, "a string or a list of text parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], path + "[" + std::to_string(i) + "]");
    const std::string type = part.required_text("type");
    if (read_picture && is_picture(content[i])) {
      text += (i == 0 ? "" : "\n") + read_picture(part);
      continue;
    }
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      throw wrong_value(
          part.path("type"), type,
          "\"" + types[0] + "\"" + (read_picture ? " or \"image_url\"" : "; only text is supported here"));
    }
    text += (i == 0 ? "" : "\n") + part.required_text(type == "refusal" ? "refusal" : "text");
  }
  return text;
}

Conversation read_conversation(const Service& service, const Fields& body, const Tools& tools) {
  const Json& given = body.required("messages");
  if (!given.is_array() || given.empty()) throw wrong_value("messages", given, "a list of at least one message");
  Conversation conversation;
  const auto picture = [&](const Fields& part) {
    conversation.pictures.push_back(read_picture(service, part));
    return picture_mark(conversation.pictures.size() - 1);
  };
  Json messages = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i)
    messages.push_back(read_message(Fields(given[i], "messages[" + std::to_string(i) + "]"), given[i], picture));
  conversation.tools = tools.json;
  conversation.continues_answer = continues_answer(service, body, messages.back());
  if (!conversation.continues_answer && messages.size() > 1 && says_nothing(messages.back()))
    messages.erase(messages.size() - 1);
  conversation.messages = to_text(messages);
  conversation.add_generation_prompt = !conversation.continues_answer && body.flag("add_generation_prompt", true);
  Json variables = Json::parse(service.options().template_variables);
  add_effort(body, variables);
  if (const Json* more = body.find("chat_template_kwargs")) {
    if (!more->is_object()) throw wrong_value("chat_template_kwargs", *more, "an object");
    variables.update(*more);
  }
  conversation.variables = to_text(variables);
  return conversation;
}

namespace {

// The engine names templates by the model's path, which clients must not see.
ApiError template_error(const Service& service, std::string message) {
  const std::string place = service.options().model_path + ": ";
  const std::size_t at = message.find(place);
  if (at != std::string::npos) message.erase(at, place.size());
  return invalid_request("messages", message);
}

template <class Ask>
auto ask_template(const Service& service, Ask ask) {
  try {
    return ask(service.generator().chat());
  } catch (const ModelError& error) {
    throw template_error(service, error.what());
  } catch (const std::invalid_argument& error) {
    throw invalid_request("messages", error.what());
  }
}

}  // namespace

Text prompt_of(const Service& service, const Conversation& conversation, const std::function<bool()>& cancelled) {
  return ask_template(service, [&](const Chat& chat) { return chat.tokens(conversation, cancelled); });
}

std::size_t num_prompt_tokens(const Service& service, const Conversation& conversation,
                              const std::function<bool()>& cancelled) {
  return ask_template(service, [&](const Chat& chat) { return chat.num_tokens(conversation, cancelled); });
}

namespace {

// Without the messages from the first one that is not the system's to before the one at `begin`, but with the system's.
Json without_turns_before(const Json& messages, std::size_t begin) {
  Json rest = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (i >= begin || messages[i]["role"] == "system") rest.push_back(messages[i]);
  }
  return rest;
}

}  // namespace

namespace {

// Those whose messages were left out. The marks of the others have other numbers then.
void drop_unused_pictures(Conversation& conversation) {
  PictureFiles used;
  for (std::size_t i = 0; i < conversation.pictures.size(); ++i) {
    const std::string mark = picture_mark(i);
    const std::size_t at = conversation.messages.find(mark);
    if (at == std::string::npos) continue;
    conversation.messages.replace(at, mark.size(), picture_mark(used.size()));
    used.push_back(conversation.pictures[i]);
  }
  conversation.pictures = std::move(used);
}

}  // namespace

Text fitting_prompt(const Service& service, Conversation& conversation, const Client& client, bool is_ollamas,
                    int num_ctx) {
  using Overflow = ServiceOptions::Overflow;
  const Overflow overflow = service.options().overflow;
  const bool drops = overflow == Overflow::drop || (overflow == Overflow::of_api && is_ollamas);
  const int n_ctx = service.generator().n_ctx(), limit = num_ctx > 0 ? std::min(num_ctx, n_ctx) : n_ctx;
  const auto text_of = [&](const Conversation& one) {
    Text prompt = prompt_of(service, one, client);
    const bool fits = prompt.length() < limit || (!drops && limit == n_ctx);
    if (fits) return prompt;
    throw ContextFull(
        "the prompt has " + std::to_string(prompt.length()) + " tokens, and the context holds " + std::to_string(limit),
        prompt.tokens.size(), limit);
  };
  try {
    return text_of(conversation);
  } catch (const ContextFull&) {
    if (!drops) throw;
  }
  const Json messages = Json::parse(conversation.messages);
  std::vector<std::size_t> begins;  // of the turns that may come first
  bool has_turn = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (has_turn && messages[i]["role"] == "user") begins.push_back(i);
    has_turn = has_turn || messages[i]["role"] != "system";
  }
  // Fewer turns have fewer tokens, so that half of the candidates are excluded by each attempt.
  std::optional<Text> found;
  Conversation shortened = conversation;
  std::size_t low = 0, high = begins.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    Conversation attempt = conversation;
    const Json rest = without_turns_before(messages, begins[middle]);
    attempt.messages = to_text(rest);
    drop_unused_pictures(attempt);
    try {
      found = text_of(attempt);
      shortened = std::move(attempt);
      client.record->num_dropped_messages = messages.size() - rest.size();
      high = middle;
    } catch (const ContextFull&) {
      low = middle + 1;
    }
  }
  if (!found) return text_of(conversation);  // throws
  conversation = std::move(shortened);
  client.record->notes.push_back("dropped " + std::to_string(client.record->num_dropped_messages) +
                                 " old messages that do not fit the context");
  return std::move(*found);
}

HttpReply count_chat_tokens(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const std::size_t count =
      num_prompt_tokens(service, read_conversation(service, fields, read_tools(fields)), http.is_gone);
  return json_reply({{"object", "response.input_tokens"}, {"input_tokens", count}});
}

HttpReply apply_template(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Conversation conversation = read_conversation(service, fields, read_tools(fields));
  try {
    return json_reply({{"prompt", service.generator().chat().prompt(conversation).text}});
  } catch (const ModelError& error) {
    throw template_error(service, error.what());
  }
}

}  // namespace specdec::server
