#include "server/messages.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

Json read_message(const Fields& message, Json json) {
  const std::string role = read_role(message);
  json["role"] = role == "developer" ? "system" : role;
  const Json* content = message.find("content");
  const bool may_lack_content = role == "assistant" && message.find("tool_calls") != nullptr;
  if (content != nullptr) json["content"] = read_content(message.path("content"), *content, {"text"});
  else if (may_lack_content) json["content"] = "";
  else throw invalid_request(message.path("content"), message.path("content") + " is missing");
  return json;
}

// Reads vLLM's "continue_final_message"; without it, applies llama-server's rule.
bool continues_answer(const Service& service, const Fields& body, const Json& last) {
  const bool is_answer = last["role"] == "assistant" && (!last.contains("tool_calls") || last["tool_calls"].empty());
  if (body.find("continue_final_message") == nullptr) {
    return is_answer && service.options().continues_answers && body.find("add_generation_prompt") == nullptr;
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

std::string read_content(const std::string& path, const Json& content, const std::vector<std::string>& types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw wrong_value(path, content, "a string or a list of text parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], path + "[" + std::to_string(i) + "]");
    const std::string type = part.required_text("type");
    if (std::find(types.begin(), types.end(), type) == types.end())
      throw wrong_value(part.path("type"), type, "\"" + types[0] + "\"; only text is supported");
    text += (i == 0 ? "" : "\n") + part.required_text("text");
  }
  return text;
}

Conversation read_conversation(const Service& service, const Fields& body, const Tools& tools) {
  const Json& given = body.required("messages");
  if (!given.is_array() || given.empty()) throw wrong_value("messages", given, "a list of at least one message");
  Json messages = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    messages.push_back(read_message(Fields(given[i], "messages[" + std::to_string(i) + "]"), given[i]));
  }
  Conversation conversation;
  conversation.messages = to_text(messages);
  conversation.tools = tools.json;
  conversation.continues_answer = continues_answer(service, body, messages.back());
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

std::vector<Token> prompt_tokens(const Service& service, const Conversation& conversation,
                                 const std::function<bool()>& cancelled) {
  try {
    return service.generator().chat().tokens(conversation, cancelled);
  } catch (const ModelError& error) {
    throw invalid_request("messages", error.what());
  } catch (const std::invalid_argument& error) {
    throw invalid_request("messages", error.what());
  }
}

HttpReply count_chat_tokens(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const std::size_t count =
      prompt_tokens(service, read_conversation(service, fields, read_tools(fields)), http.is_gone).size();
  return json_reply({{"object", "response.input_tokens"}, {"input_tokens", count}});
}

HttpReply apply_template(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const Conversation conversation = read_conversation(service, fields, read_tools(fields));
  try {
    return json_reply({{"prompt", service.generator().chat().prompt(conversation).text}});
  } catch (const ModelError& error) {
    throw invalid_request("messages", error.what());
  }
}

}  // namespace specdec::server
