#include "server/ollama_input.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>

#include "server/messages.h"
#include "server/picture_parts.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

// A text, or parts if the object has pictures.
Json content_of(const Fields& fields, const std::string& text) {
  const Json* images = fields.find("images");
  if (images == nullptr || images->empty()) return text;
  if (!images->is_array()) throw wrong_value(fields.path("images"), *images, "a list of pictures in base64");
  Json parts = Json::array();
  for (std::size_t i = 0; i < images->size(); ++i) {
    const std::string path = fields.path("images") + "[" + std::to_string(i) + "]";
    if (!(*images)[i].is_string()) throw wrong_value(path, (*images)[i], "a picture in base64");
    parts.push_back(picture_part((*images)[i].get<std::string>(), path));
  }
  if (!text.empty()) parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

// Gives ids to calls and results, because templates may need them and Ollama's messages may lack them. A result answers
// the first open call of its tool.
class CallIds {
 public:
  std::string of_call(const Fields& call, const std::string& name) {
    const std::string id = call.text("id", "call_" + std::to_string(num_calls_));
    ++num_calls_;
    open_.push_back({id, name});
    return id;
  }

  std::string of_result(const Fields& message, const std::string& name) {
    if (message.find("tool_call_id") != nullptr) return message.required_text("tool_call_id");
    const auto same = [&](const Call& call) { return name.empty() || call.name == name; };
    const auto found = std::find_if(open_.begin(), open_.end(), same);
    if (found == open_.end()) return "call_" + std::to_string(num_calls_);
    const std::string id = found->id;
    open_.erase(found);
    return id;
  }

 private:
  struct Call {
    std::string id, name;
  };
  std::size_t num_calls_ = 0;
  std::deque<Call> open_;
};

Json read_calls(const Fields& message, const Json& calls, CallIds& ids) {
  if (!calls.is_array()) throw wrong_value(message.path("tool_calls"), calls, "a list");
  Json result = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Fields call(calls[i], message.path("tool_calls[" + std::to_string(i) + "]"));
    const Fields function(call.required("function"), call.path("function"));
    const std::string name = function.required_text("name");
    const Json* arguments = function.find("arguments");
    if (arguments != nullptr && !arguments->is_object() && *arguments != Json(""))
      throw wrong_value(function.path("arguments"), *arguments, "an object");
    const std::string text = read_arguments(function);
    result.push_back(
        {{"id", ids.of_call(call, name)}, {"type", "function"}, {"function", {{"name", name}, {"arguments", text}}}});
  }
  return result;
}

Json read_message(const Fields& message, CallIds& ids) {
  const std::string role = message.required_text("role");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    throw wrong_value(message.path("role"), role, R"("system", "user", "assistant" or "tool")");
  Json result = {{"role", role}, {"content", content_of(message, message.text("content", ""))}};
  const std::string thinking = message.text("thinking", "");
  if (!thinking.empty()) result["reasoning_content"] = thinking;
  const Json* calls = message.find("tool_calls");
  if (calls != nullptr && !calls->empty()) result["tool_calls"] = read_calls(message, *calls, ids);
  if (role != "tool") return result;
  const std::string name = message.text("tool_name", message.text("name", ""));
  if (!name.empty()) result["name"] = name;
  result["tool_call_id"] = ids.of_result(message, name);
  return result;
}

// Whether and how much the model reasons, under the names that templates use.
Json read_think(const Fields& body) {
  const Json* think = body.find("think");
  if (think == nullptr) return Json::object();
  if (think->is_boolean()) return {{"enable_thinking", *think}};
  if (*think == "low" || *think == "medium" || *think == "high")
    return {{"enable_thinking", true}, {"reasoning_effort", *think}};
  throw wrong_value("think", *think, R"(true, false, "low", "medium" or "high")");
}

const Json& options_of(const Fields& body) {
  static const Json none = Json::object();
  const Json* options = body.find("options");
  return options == nullptr ? none : *options;
}

void read_ollama_format(const Service& service, Request& request, const Fields& body) {
  const Json* format = body.find("format");
  if (format == nullptr || *format == Json(std::string())) return;
  if (*format == "json") return set_schema(service, request, "format", {{"type", "object"}});
  if (!format->is_object()) throw wrong_value("format", *format, "\"json\" or a JSON schema, an object");
  set_schema(service, request, "format", *format);
}

}  // namespace

Json read_ollama_chat(const Fields& body) {
  const Json& given = body.required("messages");
  if (!given.is_array()) throw wrong_value("messages", given, "a list of messages");
  CallIds ids;
  Json messages = Json::array();
  for (std::size_t i = 0; i < given.size(); ++i)
    messages.push_back(read_message(Fields(given[i], "messages[" + std::to_string(i) + "]"), ids));
  const Json* tools = body.find("tools");
  return {{"messages", std::move(messages)},
          {"tools", tools == nullptr ? Json(nullptr) : *tools},
          {"chat_template_kwargs", read_think(body)}};
}

Json read_ollama_prompt(const Fields& body) {
  Json messages = Json::array();
  const std::string system = body.text("system", "");
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", content_of(body, body.required_text("prompt"))}});
  return {{"messages", std::move(messages)}, {"chat_template_kwargs", read_think(body)}};
}

int read_num_ctx(const Service& service, const Fields& body, RequestRecord* record) {
  const int n_ctx = service.generator().n_ctx();
  const Json& given = options_of(body);
  if (!given.is_object()) return 0;  // read_ollama_options() has the error
  const int num_ctx = Fields(given, "options").whole("num_ctx", 0, 0, std::numeric_limits<int>::max());
  if (num_ctx > n_ctx && record != nullptr) {
    record->notes.push_back("num_ctx " + std::to_string(num_ctx) + " is larger than this server's context, " +
                            std::to_string(n_ctx) + " (-c)");
  }
  return num_ctx < n_ctx ? num_ctx : 0;
}

Request read_ollama_options(const Service& service, const Fields& body, RequestRecord* record) {
  for (const char* name : {"template", "context"}) {
    const Json* value = body.find(name);
    if (value != nullptr && !value->empty() && *value != Json(std::string()))
      throw invalid_request(name,
                            std::string(name) + " is not supported; send the messages to /api/chat, or raw: true");
  }
  const Json& given = options_of(body);
  if (!given.is_object()) throw wrong_value("options", given, "an object");
  Json adapted = given;
  Json& num_predict = adapted["num_predict"];
  if (num_predict == -2) num_predict = -1;  // -2 means until the context is full
  const Fields options(adapted, "options");
  const Json* penalizes = options.find("penalize_newline");
  if (penalizes != nullptr && *penalizes == false)
    throw invalid_request("options.penalize_newline", "options.penalize_newline is not supported; leave it out");
  Request request = read_options(service, options, record);
  read_ollama_format(service, request, body);
  request.logprobs = body.flag("logprobs", false);
  request.top_logprobs = body.whole("top_logprobs", 0, 0, 20);
  return request;
}

}  // namespace specdec::server
