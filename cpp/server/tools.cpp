#include "server/tools.h"

#include <stdexcept>
#include <utility>

namespace specdec::server {
namespace {

void check_tools(const Json& tools) {
  if (!tools.is_array()) throw wrong_value("tools", tools, "a list");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Fields tool(tools[i], "tools[" + std::to_string(i) + "]");
    const std::string type = tool.required_text("type");
    if (type != "function") throw wrong_value(tool.path("type"), type, "\"function\"");
    const Fields function(tool.required("function"), tool.path("function"));
    (void)function.required_text("name");
    const Json* parameters = function.find("parameters");
    if (parameters != nullptr && !parameters->is_object())
      throw wrong_value(function.path("parameters"), *parameters, "a JSON schema, an object");
  }
}

// Only the tool that must be called.
Json only(const Json& tools, const std::string& path, const std::string& name) {
  for (const Json& tool : tools) {
    if (tool["function"]["name"] == name) return Json::array({tool});
  }
  throw invalid_request(path, path + " is \"" + name + "\", but no tool has that name");
}

}  // namespace

Json chat_tools(const Fields& body, Json (*function_of)(const Fields& tool)) {
  const Json* tools = body.find("tools");
  if (tools == nullptr) return nullptr;
  if (!tools->is_array()) throw wrong_value("tools", *tools, "a list");
  Json result = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i], "tools[" + std::to_string(i) + "]");
    result.push_back({{"type", "function"}, {"function", function_of(tool)}});
  }
  return result;
}

Tools read_tools(const Fields& body) {
  Tools result;
  const Json* tools = body.find("tools");
  if (tools != nullptr) check_tools(*tools);
  const bool has_tools = tools != nullptr && !tools->empty();
  result.use.is_parallel = body.flag("parallel_tool_calls", true);

  const Json* choice = body.find("tool_choice");
  if (choice != nullptr && *choice == "none") return result;
  if (has_tools) result.json = result.callable = to_text(*tools);
  if (choice == nullptr || *choice == "auto") return result;
  if (!choice->is_object() && *choice != "required") {
    throw wrong_value("tool_choice", *choice,
                      R"("auto", "none", "required" or {"type": "function", "function": {"name": ...}})");
  }
  if (!has_tools) throw invalid_request("tool_choice", "tool_choice requires a call, but there are no tools");
  result.use.is_required = true;
  if (*choice == "required") return result;
  const Fields named(*choice, "tool_choice");
  const std::string type = named.required_text("type");
  if (type != "function") throw wrong_value(named.path("type"), type, "\"function\"");
  const Fields function(named.required("function"), named.path("function"));
  result.callable = to_text(only(*tools, function.path("name"), function.required_text("name")));
  result.use.is_parallel = false;
  return result;
}

std::shared_ptr<const ChatOutputParser> prepare_answer(const Service& service, const Tools& tools,
                                                       Conversation conversation, Request& request) {
  conversation.tools = tools.callable;
  try {
    return service.generator().chat().prepare_answer(conversation, tools.use, request);
  } catch (const std::invalid_argument& error) {
    throw invalid_request("tool_choice", error.what());
  }
}

}  // namespace specdec::server
