#include "server/messages.h"

#include <algorithm>

#include "base/error.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

Json read_message(const Fields& message, Json json) {
  const std::string role = message.required_text("role");
  if (role.empty()) throw invalid_request(message.path("role"), message.path("role") + " is empty");
  json["role"] = role == "developer" ? "system" : role;
  const Json* content = message.find("content");
  const bool may_lack_content = role == "assistant" && message.find("tool_calls") != nullptr;
  if (content != nullptr) json["content"] = read_content(message.path("content"), *content, {"text"});
  else if (may_lack_content) json["content"] = "";
  else throw invalid_request(message.path("content"), message.path("content") + " is missing");
  return json;
}

void check_tools(const Json& tools) {
  if (!tools.is_array()) throw wrong_value("tools", tools, "a list");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Fields tool(tools[i], "tools[" + std::to_string(i) + "]");
    const std::string type = tool.required_text("type");
    if (type != "function") throw wrong_value(tool.path("type"), type, "\"function\"");
    (void)Fields(tool.required("function"), tool.path("function")).required_text("name");
  }
}

// Whether the model may call tools. Calls that must be made need a grammar.
bool uses_tools(const Fields& body) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  throw wrong_value("tool_choice", *choice, "\"auto\" or \"none\"");
}

}  // namespace

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

Conversation read_conversation(const Fields& body) {
  const Json& given = body.required("messages");
  if (!given.is_array() || given.empty()) throw wrong_value("messages", given, "a list of at least one message");
  Json messages = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    messages.push_back(read_message(Fields(given[i], "messages[" + std::to_string(i) + "]"), given[i]));
  }
  Conversation conversation;
  conversation.messages = to_text(messages);
  const Json* tools = body.find("tools");
  if (tools != nullptr) check_tools(*tools);
  if (uses_tools(body) && tools != nullptr && !tools->empty()) conversation.tools = to_text(*tools);
  conversation.add_generation_prompt = body.flag("add_generation_prompt", true);
  return conversation;
}

std::vector<Token> prompt_tokens(const Service& service, const Conversation& conversation, const std::function<bool()>& cancelled) {
  try {
    return service.generator().chat_tokens(conversation, cancelled);
  } catch (const ModelError& error) {
    throw invalid_request("messages", error.what());
  } catch (const std::invalid_argument& error) {
    throw invalid_request("messages", error.what());
  }
}

HttpReply apply_template(Service& service, const HttpRequest& http) {
  const Json body = parse_body(http.body);
  const Conversation conversation = read_conversation(Fields(body));
  try {
    return json_reply({{"prompt", service.generator().chat_prompt(conversation).text}});
  } catch (const ModelError& error) {
    throw invalid_request("messages", error.what());
  }
}

}  // namespace specdec::server
