#include "chat/tool_schemas.h"

#include <nlohmann/json.hpp>
#include <set>

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_depth = 64;

// Keywords, other than annotations, that llama.cpp's common/json-schema.cpp does not read.
const std::set<std::string> not_read = {"uniqueItems",
                                        "minProperties",
                                        "maxProperties",
                                        "propertyNames",
                                        "patternProperties",
                                        "multipleOf",
                                        "not",
                                        "if",
                                        "then",
                                        "else",
                                        "contains",
                                        "minContains",
                                        "maxContains",
                                        "dependentRequired",
                                        "dependencies",
                                        "nullable",
                                        "dependentSchemas",
                                        "additionalItems",
                                        "unevaluatedItems",
                                        "unevaluatedProperties"};
const std::set<std::string> bounds = {"minimum", "maximum", "exclusiveMinimum",
                                      "exclusiveMaximum"};  // only for integers

bool excludes_nothing(const Json& value) { return value == false || value == 0 || value == Json::object(); }

void collect(const Json& schema, const std::string& place, int depth, std::vector<std::string>& places) {
  if (!schema.is_object() || depth > max_depth) return;
  const bool is_number = schema.value("type", Json()) == "number";
  for (const auto& [name, value] : schema.items()) {
    const std::string at = place + "/" + name;
    const bool is_left_out =
        (not_read.count(name) != 0 && !excludes_nothing(value)) || (is_number && bounds.count(name));
    if (is_left_out) {
      places.push_back(at);
    } else if (name == "properties" || name == "$defs" || name == "definitions") {
      if (!value.is_object()) continue;
      for (const auto& [key, one] : value.items())
        collect(one, at + (Json::json_pointer() / key).to_string(), depth + 1, places);
    } else if (name == "anyOf" || name == "oneOf" || name == "allOf" || name == "prefixItems") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        collect(value[i], at + "/" + std::to_string(i), depth + 1, places);
    } else if (name == "items" || name == "additionalProperties") {
      collect(value, at, depth + 1, places);
    }
  }
}

}  // namespace

std::vector<std::string> keywords_not_in_calls(const std::string& tools) {
  std::vector<std::string> places;
  const Json list = Json::parse(tools, nullptr, false);
  for (const Json& tool : list.is_array() ? list : Json::array()) {
    const Json& function = tool.at("function");
    if (function.contains("parameters"))
      collect(function.at("parameters"), function.at("name").get<std::string>() + ": ", 0, places);
  }
  return places;
}

}  // namespace specdec
