#include "server/response_input.h"

#include <utility>

#include "server/messages.h"
#include "server/picture_parts.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

std::string name_in_chat(const std::string& space, const std::string& name) {
  return space.empty() ? name : space + "__" + name;
}

// The assistant's message at the end of the list; appends one if there is none.
Json& assistant_message(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

void add_message_item(Json& messages, const Fields& item) {
  const std::string role = read_role(item);
  Json content = content_with_pictures(item.path("content"), item.required("content"),
                                       {"input_text", "output_text", "text", "refusal"});
  static const Json none = Json::object();
  const Json& last = messages.empty() ? none : messages.back();
  const bool is_thoughts =
      last.value("role", "") == "assistant" && last.value("content", "x").empty() && !last.contains("tool_calls");
  if (role == "assistant" && is_thoughts) messages.back()["content"] = std::move(content);
  else messages.push_back({{"role", role}, {"content", std::move(content)}});
}

// Some clients send an item's own id instead.
std::string call_id(const Fields& item) {
  const bool has_id = item.find("call_id") == nullptr && item.find("id") != nullptr;
  return item.required_text(has_id ? "id" : "call_id");
}

void add_call(Json& messages, const Fields& item, const std::string& name, const std::string& arguments) {
  const Json function = {{"name", name}, {"arguments", arguments}};
  const std::string id = call_id(item);
  assistant_message(messages)["tool_calls"].push_back({{"id", id}, {"type", "function"}, {"function", function}});
}

// A text, parts of text, or (of shells) any JSON.
void add_output(Json& messages, const Fields& item) {
  const Json& output = item.required("output");
  const bool is_parts = output.is_array() && !output.empty() && output[0].is_object() && output[0].contains("type");
  Json text = output.is_string() || is_parts
                  ? content_with_pictures(item.path("output"), output, {"input_text", "output_text", "text"})
                  : Json(to_text(output));
  const std::string id = call_id(item);
  messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}});
}

// Calls of tools that agents run and that have a type of their own.
const char* own_tool_of(const std::string& type) {
  for (const auto& [item, tool] : {std::pair("local_shell_call", "local_shell"), std::pair("shell_call", "shell"),
                                   std::pair("apply_patch_call", "apply_patch")}) {
    if (type == item) return tool;
  }
  return nullptr;
}

bool is_output(const std::string& type) {
  for (const char* const item : {"function_call_output", "custom_tool_call_output", "local_shell_call_output",
                                 "shell_call_output", "apply_patch_call_output"}) {
    if (type == item) return true;
  }
  return false;
}

// What OpenAI's servers write about tools that they ran; the model has seen none of it.
bool is_of_tools_run_elsewhere(const std::string& type) {
  for (const char* const item :
       {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call",
        "computer_call_output", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response",
        "tool_search_call", "tool_search_output", "compaction"}) {
    if (type == item) return true;
  }
  return false;
}

void add_item(Json& messages, const Fields& item) {
  const std::string type = item.text("type", "message");
  if (type == "message") return add_message_item(messages, item);
  if (type == "reasoning") {
    const Json* content = item.find("content");
    if (content == nullptr) return;
    assistant_message(messages)["reasoning_content"] = read_content(item.path("content"), *content, {"reasoning_text"});
  } else if (type == "function_call") {
    const std::string name = name_in_chat(item.text("namespace", ""), item.required_text("name"));
    add_call(messages, item, name, read_arguments(item));
  } else if (type == "custom_tool_call") {
    const Json arguments = {{"input", item.text("input", "")}};
    add_call(messages, item, name_in_chat(item.text("namespace", ""), item.required_text("name")), to_text(arguments));
  } else if (const char* const tool = own_tool_of(type)) {
    const Json* action = item.find("action");
    if (action == nullptr) action = item.find("operation");
    add_call(messages, item, tool, action == nullptr ? "{}" : to_text(*action));
  } else if (is_output(type)) {
    add_output(messages, item);
  } else if (!is_of_tools_run_elsewhere(type)) {
    throw wrong_value(item.path("type"), type,
                      "\"message\", \"reasoning\", \"function_call\" or \"function_call_output\"");
  }
}

bool is_run_by_openai(const std::string& type) {
  for (const char* known : {"web_search", "file_search", "code_interpreter", "image_generation"}) {
    if (type.compare(0, std::char_traits<char>::length(known), known) == 0) return true;  // "web_search_preview_..."
  }
  return false;
}

void add_function(ResponseTools& tools, const Fields& tool, const std::string& space) {
  const std::string own_name = tool.required_text("name"), name = name_in_chat(space, own_name);
  Json function = {{"name", name}};
  for (const char* field : {"description", "parameters", "strict"}) {
    if (const Json* value = tool.find(field)) function[field] = *value;
  }
  const Json* parameters = tool.find("parameters");
  if (parameters != nullptr && !parameters->is_object())
    throw wrong_value(tool.path("parameters"), *parameters, "a JSON schema, an object");
  if (!space.empty()) tools.of_namespaces[name] = {{"namespace", space}, {"name", own_name}};
  tools.chat.push_back({{"type", "function"}, {"function", std::move(function)}});
}

// space: the tool's namespace; empty: none.
void add_tool(ResponseTools& tools, const Fields& tool, const std::string& space) {
  const std::string type = tool.required_text("type");
  if (is_run_by_openai(type)) return;
  if (type == "function") return add_function(tools, tool, space);
  if (type != "namespace" || !space.empty()) {
    tools.left_out.push_back({tool.path("type"), type});
    return;
  }
  const Json& members = tool.required("tools");
  if (!members.is_array()) throw wrong_value(tool.path("tools"), members, "a list");
  for (std::size_t i = 0; i < members.size(); ++i)
    add_tool(tools, Fields(members[i], tool.path("tools[" + std::to_string(i) + "]")), tool.required_text("name"));
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

ResponseTools read_response_tools(const Fields& body) {
  ResponseTools result;
  const Json* tools = body.find("tools");
  if (tools == nullptr) return result;
  if (!tools->is_array()) throw wrong_value("tools", *tools, "a list");
  result.chat = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i)
    add_tool(result, Fields((*tools)[i], "tools[" + std::to_string(i) + "]"), "");
  if (result.chat.empty() && !result.left_out.empty()) {
    const auto& [path, type] = result.left_out.front();
    throw wrong_value(path, type, R"("function" or "namespace"; this server runs no tools)");
  }
  return result;
}

Json read_response_tool_choice(const Fields& body) {
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return nullptr;
  if (!choice->is_object()) return *choice;
  const Fields named(*choice, "tool_choice");
  const std::string type = named.required_text("type");
  if (type != "function") throw wrong_value(named.path("type"), type, "\"function\"");
  const std::string name = name_in_chat(named.text("namespace", ""), named.required_text("name"));
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

}  // namespace specdec::server
