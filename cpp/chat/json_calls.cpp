#include "chat/json_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/json_depth.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_depth = 200;
constexpr const char* blank = " \t\r\n";
constexpr const char* fence = "```";

// The end of the object or list that begins at `begin`; npos if it does not end.
std::size_t end_of_value(const std::string& text, std::size_t begin) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
  }
  return std::string::npos;
}

std::optional<ToolCall> call_of(const Json& json, const std::set<std::string>& names) {
  if (!json.is_object()) return std::nullopt;
  if (json.contains("function") && json["function"].is_object()) {
    std::optional<ToolCall> call = call_of(json["function"], names);
    if (call && json.contains("id") && json["id"].is_string()) call->id = json["id"].get<std::string>();
    return call;
  }
  if (!json.contains("name") || !json["name"].is_string()) return std::nullopt;
  const auto name = json["name"].get<std::string>();
  const char* const field = json.contains("arguments") ? "arguments" : "parameters";
  if (names.count(name) == 0 || !json.contains(field)) return std::nullopt;
  const Json& arguments = json[field];
  if (arguments.is_object()) return ToolCall{"", name, arguments.dump()};
  if (!arguments.is_string()) return std::nullopt;
  const Json parsed = Json::parse(arguments.get<std::string>(), nullptr, false);
  return parsed.is_object() ? std::optional<ToolCall>({"", name, parsed.dump()}) : std::nullopt;
}

bool add_calls(const Json& json, const std::set<std::string>& names, std::vector<ToolCall>& calls) {
  const Json& list = json.is_object() && json.contains("tool_calls") ? json["tool_calls"] : json;
  if (list.is_array())
    return !list.empty() &&
           std::all_of(list.begin(), list.end(), [&](const Json& one) { return add_calls(one, names, calls); });
  std::optional<ToolCall> call = call_of(list, names);
  if (call) calls.push_back(std::move(*call));
  return call.has_value();
}

// Adjusts the references in a schema that becomes a part, at `place`, of another schema.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_object() && schema.contains("$ref") && schema["$ref"].is_string()) {
    const auto reference = schema["$ref"].get<std::string>();
    if (reference.compare(0, 1, "#") == 0) schema["$ref"] = "#" + place + reference.substr(1);
  }
  if (!schema.is_structured()) return;
  for (Json& member : schema) move_references(member, place);
}

}  // namespace

std::set<std::string> tool_names(const std::string& tools) {
  std::set<std::string> names;
  const Json list = Json::parse(tools, nullptr, false);
  for (const Json& tool : list.is_array() ? list : Json::array()) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    const Json& function = tool["function"];
    if (function.contains("name") && function["name"].is_string()) names.insert(function["name"].get<std::string>());
  }
  return names;
}

std::size_t start_of_json_calls(const std::string& text) {
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string::npos) return std::string::npos;
  if (text[first] == '{' || text[first] == '[') return first;
  const std::size_t block = text.find(fence);
  if (block != std::string::npos) return block;
  const std::size_t ticks = text.find_last_not_of('`') + 1;  // a fence may begin here
  return ticks < text.size() ? ticks : std::string::npos;
}

std::optional<std::vector<ToolCall>> json_calls(const std::string& text, const std::set<std::string>& names) {
  std::vector<ToolCall> calls;
  std::size_t at = start_of_json_calls(text);
  if (at == std::string::npos || json_depth(text) > max_depth) return std::nullopt;
  while (at != std::string::npos) {
    const bool is_fenced = text.compare(at, 3, fence) == 0;
    if (is_fenced) at = text.find_first_of("{[`\n", at + 3);  // after the language's name
    if (is_fenced && at != std::string::npos) at = text.find_first_not_of(blank, at);
    if (at == std::string::npos || (text[at] != '{' && text[at] != '[')) return std::nullopt;
    const std::size_t end = end_of_value(text, at);
    if (end == std::string::npos) return std::nullopt;
    const Json json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (json.is_discarded() || !add_calls(json, names, calls)) return std::nullopt;
    at = text.find_first_not_of(blank, end);
    if (!is_fenced || at == std::string::npos) continue;
    if (text.compare(at, 3, fence) != 0) return std::nullopt;
    at = text.find_first_not_of(blank, at + 3);
  }
  return calls;
}

std::string schema_of_json_call(const std::string& tools) {
  const Json list = Json::parse(tools, nullptr, false);
  Json calls = Json::array(), definitions = Json::object();
  for (const Json& tool : list.is_array() ? list : Json::array()) {
    const Json& function = tool.at("function");
    Json parameters = function.contains("parameters") ? function["parameters"] : Json({{"type", "object"}});
    if (parameters.empty()) parameters = {{"type", "object"}};
    const std::string name = "arguments" + std::to_string(calls.size());
    move_references(parameters, "/$defs/" + name);
    definitions[name] = std::move(parameters);
    calls.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", function.at("name")}}}, {"arguments", {{"$ref", "#/$defs/" + name}}}}},
         {"required", {"name", "arguments"}},
         {"additionalProperties", false}});
  }
  if (calls.empty()) throw std::invalid_argument("there are no tools");
  return Json({{"anyOf", std::move(calls)}, {"$defs", std::move(definitions)}}).dump();
}

}  // namespace specdec
