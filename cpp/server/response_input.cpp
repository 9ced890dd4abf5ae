#include "server/response_input.h"

#include <utility>

#include "server/messages.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

// The message of the assistant's turn at the end of the list.
Json& assistant_message(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

void add_message(Json& messages, const Fields& item) {
  const std::string role = read_role(item);
  const std::string text =
      read_content(item.path("content"), item.required("content"), {"input_text", "output_text", "text"});
  static const Json none = Json::object();
  const Json& last = messages.empty() ? none : messages.back();
  const bool is_thoughts =
      last.value("role", "") == "assistant" && last.value("content", "x").empty() && !last.contains("tool_calls");
  if (role == "assistant" && is_thoughts) messages.back()["content"] = text;
  else messages.push_back({{"role", role}, {"content", text}});
}

void add_item(Json& messages, const Fields& item) {
  const std::string type = item.text("type", "message");
  if (type == "message") return add_message(messages, item);
  if (type == "reasoning") {
    const Json* content = item.find("content");
    if (content == nullptr) return;
    assistant_message(messages)["reasoning_content"] = read_content(item.path("content"), *content, {"reasoning_text"});
  } else if (type == "function_call") {
    const Json function = {{"name", item.required_text("name")}, {"arguments", item.required_text("arguments")}};
    const std::string id = item.required_text("call_id");
    assistant_message(messages)["tool_calls"].push_back({{"id", id}, {"type", "function"}, {"function", function}});
  } else if (type == "function_call_output") {
    const std::string output =
        read_content(item.path("output"), item.required("output"), {"input_text", "output_text", "text"});
    messages.push_back({{"role", "tool"}, {"tool_call_id", item.required_text("call_id")}, {"content", output}});
  } else {
    throw wrong_value(item.path("type"), type,
                      "\"message\", \"reasoning\", \"function_call\" or \"function_call_output\"");
  }
}

}  // namespace

Json read_response_messages(const Fields& body) {
  Json messages = Json::array();
  const std::string instructions = body.text("instructions", "");
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  const Json& input = body.required("input");
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array() || input.empty())
    throw wrong_value("input", input, "a string or a list of at least one message");
  for (std::size_t i = 0; i < input.size(); ++i)
    add_item(messages, Fields(input[i], "input[" + std::to_string(i) + "]"));
  if (messages.empty()) throw invalid_request("input", "input has no message");
  return messages;
}

Json read_response_tools(const Fields& body) {
  return chat_tools(body, [](const Fields& tool) {
    const std::string type = tool.required_text("type");
    if (type != "function") throw wrong_value(tool.path("type"), type, "\"function\"");
    Json function = {{"name", tool.required_text("name")}};
    for (const char* name : {"description", "parameters", "strict"}) {
      if (const Json* value = tool.find(name)) function[name] = *value;
    }
    const Json* parameters = tool.find("parameters");
    if (parameters != nullptr && !parameters->is_object())
      throw wrong_value(tool.path("parameters"), *parameters, "a JSON schema, an object");
    return function;
  });
}

Json read_response_tool_choice(const Fields& body) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return nullptr;
  if (!choice->is_object()) return *choice;
  const Fields named(*choice, "tool_choice");
  const std::string type = named.required_text("type");
  if (type != "function") throw wrong_value(named.path("type"), type, "\"function\"");
  return {{"type", "function"}, {"function", {{"name", named.required_text("name")}}}};
}

}  // namespace specdec::server
