#include "server/anthropic_input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/messages.h"
#include "server/picture_parts.h"
#include "server/tools.h"

namespace specdec::server {
namespace {

// Anthropic's fields that change what a model reads or writes but that only its own servers support.
constexpr const char* unsupported[] = {"container", "mcp_servers"};

void reject(const Fields& fields, const std::string& name) {
  throw invalid_request(fields.path(name), fields.path(name) + " is not supported by this server; leave it out");
}

// Checks the requested edits of the conversation. The template decides which earlier reasoning is kept.
void check_context_management(const Fields& body) {
  const Json* given = body.find("context_management");
  if (given == nullptr) return;
  const Fields management(*given, body.path("context_management"));
  const Json* edits = management.find("edits");
  if (edits == nullptr || !edits->is_array()) return;
  for (std::size_t i = 0; i < edits->size(); ++i) {
    const Fields edit((*edits)[i], management.path("edits[" + std::to_string(i) + "]"));
    const std::string type = edit.required_text("type");
    if (type.compare(0, 14, "clear_thinking") != 0) reject(edit, "type");
  }
}

void check_supported_message(const Fields& body) {
  for (const char* name : unsupported) {
    const Json* value = body.find(name);
    if (value != nullptr && !value->empty()) reject(body, name);
  }
  check_context_management(body);
}

[[noreturn]] void fail_block_type(const Fields& block, const std::string& type, const std::string& known) {
  throw wrong_value(block.path("type"), type, known);
}

void append(std::string& text, const std::string& more) { text += (text.empty() ? "" : "\n") + more; }

// Adds the user's text and results of tools, in their order.
void add_user_blocks(Json& messages, const std::string& path, const Json& blocks) {
  Json parts = Json::array();
  const auto end_text = [&] {
    if (parts.empty()) return;
    const bool is_text = std::none_of(parts.begin(), parts.end(), is_picture);
    messages.push_back({{"role", "user"}, {"content", is_text ? Json(read_content(path, parts, {"text"})) : parts}});
    parts = Json::array();
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Fields block(blocks[i], path + "[" + std::to_string(i) + "]");
    const std::string type = block.required_text("type");
    if (type == "text") {
      parts.push_back({{"type", "text"}, {"text", block.required_text("text")}});
    } else if (is_picture(blocks[i])) {
      parts.push_back(picture_part(block));
    } else if (type == "tool_result") {
      end_text();
      const Json* content = block.find("content");
      Json result = {
          {"role", "tool"},
          {"tool_call_id", block.required_text("tool_use_id")},
          {"content",
           content == nullptr ? Json("") : content_with_pictures(block.path("content"), *content, {"text"})}};
      if (block.flag("is_error", false)) result["is_error"] = true;  // for templates that use it
      messages.push_back(std::move(result));
    } else {
      fail_block_type(block, type, R"("text", "image" or "tool_result")");
    }
  }
  end_text();
}

Json assistant_message(const std::string& path, const Json& blocks) {
  std::string text, reasoning;
  Json calls = Json::array();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Fields block(blocks[i], path + "[" + std::to_string(i) + "]");
    const std::string type = block.required_text("type");
    if (type == "text") {
      append(text, block.required_text("text"));
    } else if (type == "thinking") {
      append(reasoning, block.required_text("thinking"));
    } else if (type == "tool_use") {
      const Json& input = block.required("input");
      if (!input.is_object()) throw wrong_value(block.path("input"), input, "an object");
      const Json function = {{"name", block.required_text("name")}, {"arguments", to_text(input)}};
      calls.push_back({{"id", block.required_text("id")}, {"type", "function"}, {"function", function}});
    } else if (type != "redacted_thinking") {  // only Anthropic's models can read that
      fail_block_type(block, type, R"("text", "thinking" or "tool_use")");
    }
  }
  Json message = {{"role", "assistant"}, {"content", text}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

void add_message(Json& messages, const Fields& message) {
  const std::string role = message.required_text("role"), path = message.path("content");
  if (role != "user" && role != "assistant" && role != "system")
    throw wrong_value(message.path("role"), role, R"("user", "assistant" or "system")");
  const Json& content = message.required("content");
  if (role == "system" || content.is_string()) {
    messages.push_back({{"role", role}, {"content", read_content(path, content, {"text"})}});
  } else if (!content.is_array()) {
    throw wrong_value(path, content, "a string or a list of blocks");
  } else if (role == "user") {
    add_user_blocks(messages, path, content);
  } else {
    messages.push_back(assistant_message(path, content));
  }
}

// Claude Code begins the system prompt with a line for Anthropic's accounting that differs in each request. It tells
// the model nothing, and with it no request would share its beginning with an earlier one.
std::string without_billing(std::string system) {
  const std::string begin = "x-anthropic-billing-header:";
  if (system.compare(0, begin.size(), begin) != 0) return system;
  const std::size_t end = system.find('\n');
  return system.erase(0, end == std::string::npos ? end : end + 1);
}

Json read_messages(const Fields& body) {
  Json messages = Json::array();
  if (const Json* system = body.find("system")) {
    const std::string text = without_billing(read_content("system", *system, {"text"}));
    if (!text.empty()) messages.push_back({{"role", "system"}, {"content", text}});
  }
  const Json& given = body.required("messages");
  if (!given.is_array() || given.empty()) throw wrong_value("messages", given, "a list of at least one message");
  for (std::size_t i = 0; i < given.size(); ++i)
    add_message(messages, Fields(given[i], "messages[" + std::to_string(i) + "]"));
  return messages;
}

Json function_of(const Fields& tool) {
  const std::string type = tool.text("type", "custom");
  if (type != "custom") {
    throw wrong_value(tool.path("type"), type,
                      "\"custom\": this server runs no tools itself, so a tool needs an input_schema");
  }
  if (tool.flag("defer_loading", false)) reject(tool, "defer_loading");
  const Json& schema = tool.required("input_schema");
  if (!schema.is_object()) throw wrong_value(tool.path("input_schema"), schema, "a JSON schema, an object");
  Json function = {{"name", tool.required_text("name")}};
  if (tool.find("description") != nullptr) function["description"] = tool.required_text("description");
  function["parameters"] = schema;
  for (const char* name : {"strict", "input_examples"}) {
    if (const Json* value = tool.find(name)) function[name] = *value;
  }
  return function;
}

void read_tool_choice(const Fields& body, Json& chat) {
  const Json* given = body.find("tool_choice");
  if (given == nullptr) return;
  const Fields choice(*given, "tool_choice");
  chat["parallel_tool_calls"] = !choice.flag("disable_parallel_tool_use", false);
  const std::string type = choice.required_text("type");
  if (type == "auto" || type == "none") chat["tool_choice"] = type;
  else if (type == "any") chat["tool_choice"] = "required";
  else if (type == "tool")
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice.required_text("name")}}}};
  else throw wrong_value(choice.path("type"), type, R"("auto", "any", "tool" or "none")");
}

// Whether and how much the model reasons, under the names that templates use.
Json read_template_variables(const Fields& body) {
  Json variables = Json::object();
  if (const Json* given = body.find("thinking")) {
    const Fields thinking(*given, "thinking");
    const std::string type = thinking.required_text("type");
    if (type != "enabled" && type != "adaptive" && type != "disabled")
      throw wrong_value(thinking.path("type"), type, R"("enabled", "adaptive" or "disabled")");
    variables["enable_thinking"] = type != "disabled";
  }
  if (const Json* config = body.find("output_config")) {
    const std::string effort = Fields(*config, "output_config").text("effort", "");
    if (!effort.empty()) variables["reasoning_effort"] = effort;
  }
  if (const Json* more = body.find("chat_template_kwargs")) {
    if (!more->is_object()) throw wrong_value("chat_template_kwargs", *more, "an object");
    variables.update(*more);
  }
  return variables;
}

}  // namespace

Json read_anthropic_chat(const Fields& body) {
  check_supported_message(body);
  Json chat = {{"messages", read_messages(body)},
               {"tools", chat_tools(body, function_of)},
               {"chat_template_kwargs", read_template_variables(body)}};
  read_tool_choice(body, chat);
  const Json& messages = chat["messages"];
  if (!messages.empty() && messages.back()["role"] == "assistant") {  // the answer continues it
    chat["continue_final_message"] = true;
    chat["add_generation_prompt"] = false;
  }
  return chat;
}

}  // namespace specdec::server
