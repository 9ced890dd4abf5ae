#include "chat/tool_schemas.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "chat/argument_types.h"
#include "chat/schema_types.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* first_part = "/$defs/arguments";

std::string escaped(const std::string& name) { return (Json::json_pointer() / name).to_string(); }

// References within the schema lead to where it is now.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_object() && schema.contains("$ref") && schema["$ref"].is_string()) {
    const auto reference = schema["$ref"].get<std::string>();
    if (reference.compare(0, 1, "#") == 0) schema["$ref"] = "#" + place + reference.substr(1);
  }
  if (!schema.is_structured()) return;
  for (Json& member : schema) move_references(member, place);
}

// Calls it for the functions of a list of tools.
void each_function(Json& list, const std::function<void(Json& function)>& call) {
  if (!list.is_array()) return;
  for (Json& tool : list) {
    if (tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
        tool["function"].value("name", Json()).is_string())
      call(tool["function"]);
  }
}

// A function without parameters takes any object.
Json parameters_of(const Json& function) {
  const Json parameters = function.value("parameters", Json());
  return !parameters.is_object() || parameters.empty() ? Json({{"type", "object"}}) : parameters;
}

bool restricts(const std::string& keyword, const Json& value) {
  static const std::set<std::string> annotations = {"title",      "description", "default",     "examples", "example",
                                                    "deprecated", "readOnly",    "writeOnly",   "$comment", "$schema",
                                                    "$id",        "$defs",       "definitions", "type",     "nullable"};
  const bool takes_all = value == Json::object() || (value == true && keyword != "uniqueItems");
  return annotations.count(keyword) == 0 && keyword.compare(0, 2, "x-") != 0 && !takes_all;
}

void add_keywords(const Json& schema, const std::string& place, std::vector<std::string>& pointers) {
  if (!schema.is_object()) return;
  for (const auto& [keyword, value] : schema.items()) {
    if (restricts(keyword, value)) pointers.push_back(place + escaped(keyword));
  }
}

// The names in "required" that are properties.
Json required_of(const Json& schema) {
  Json names = Json::array();
  const Json required = schema.value("required", Json::array()),
             properties = schema.value("properties", Json::object());
  for (const Json& name : required.is_array() && properties.is_object() ? required : Json::array()) {
    if (name.is_string() && properties.contains(name.get<std::string>())) names.push_back(name);
  }
  return names;
}

// The keywords of an object besides those that object_of() and form_of() keep.
Json without_form(Json schema) {
  for (const char* name : {"properties", "required"}) schema.erase(name);
  if (schema.value("additionalProperties", Json()) == false) schema.erase("additionalProperties");
  return schema;
}

Json types_of(const ArgumentTypes& types) {
  Json names = Json::array();
  const std::pair<bool, const char*> all[] = {{types.string, "string"},   {types.whole || types.fraction, "number"},
                                              {types.boolean, "boolean"}, {types.null, "null"},
                                              {types.object, "object"},   {types.array, "array"}};
  for (const auto& [is_allowed, name] : all) {
    if (is_allowed) names.push_back(name);
  }
  if (names.empty() || names.size() == std::size(all)) return Json::object();
  return {{"type", names.size() == 1 ? names[0] : names}};
}

// Objects and arrays that say what is in them keep that form. `leaf` makes what is in place of the rest of it, and
// `rest` gets the other keywords of what is kept, each with the place.
struct Parts {
  std::function<Json(const Json& schema, const std::string& place)> leaf;
  std::function<void(const Json& keywords, const std::string& place)> rest;
};
Json form_of(const Json& schema, const std::string& place, const Parts& parts, int depth = 0) {
  constexpr int max_depth = 16;
  const Json type = schema.is_object() ? schema.value("type", Json()) : Json();
  if (depth < max_depth && type == "object" && schema.value("properties", Json()).is_object()) {
    parts.rest(without_form(schema), place);
    Json object = {{"type", "object"}, {"properties", Json::object()}, {"required", required_of(schema)}};
    for (const auto& [name, property] : schema["properties"].items())
      object["properties"][name] = form_of(property, place + "/properties" + escaped(name), parts, depth + 1);
    return object;
  }
  const bool has_items =
      type == "array" && schema.value("items", Json()).is_object() && !schema.contains("prefixItems");
  if (depth >= max_depth || !has_items) return parts.leaf(schema, place);
  Json rest = schema;
  rest.erase("items");
  parts.rest(rest, place);
  return {{"type", "array"}, {"items", form_of(schema["items"], place + "/items", parts, depth + 1)}};
}

using Argument = std::function<Json(const std::string& name, const ArgumentTypes& types)>;

// An object with these arguments, the required ones as in the schema.
Json object_of(const Json& schema, const std::map<std::string, ArgumentTypes>& types, const Argument& argument) {
  Json object = {{"type", "object"}, {"properties", Json::object()}, {"required", required_of(schema)}};
  const Json properties = schema.value("properties", Json::object());
  if (!properties.is_object()) return object;
  for (const auto& [name, value] : properties.items()) object["properties"][name] = argument(name, types.at(name));
  return object;
}

// Ten digits that the text does not have. They depend on it, so that no text can be written to have many candidates.
std::string unused_number(const std::string& text) {
  constexpr std::size_t least = 1'000'000'000;
  std::size_t number = least + std::hash<std::string>()(text) % least;
  while (text.find(std::to_string(number)) != std::string::npos) ++number;
  return std::to_string(number);
}

}  // namespace

std::string ToolSchemas::pointer(std::size_t tool) { return first_part + std::to_string(tool); }

std::string ToolSchemas::named(const std::string& text) const {
  std::string out;
  const std::string part = first_part;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(part, at)) != std::string::npos;) {
    const std::size_t digits = found + part.size(),
                      end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    const std::size_t tool =
        digits < end && end - digits < 9 ? std::stoul(text.substr(digits, end - digits)) : names.size();
    const bool is_known = tool < names.size();
    const bool is_reference = is_known && found > at && text[found - 1] == '#';
    out += text.substr(at, found - at - (is_reference ? 1 : 0)) +
           (is_known ? names[tool] + ": " : text.substr(found, end - found));
    if (is_known && (end == text.size() || text[end] != '/')) out += "the schema";
    at = end;
  }
  return out + text.substr(at);
}

ToolSchemas tool_schemas(const std::string& tools) {
  ToolSchemas schemas;
  Json list = Json::parse(tools, nullptr, false), definitions = Json::object();
  each_function(list, [&](const Json& function) {
    Json parameters = parameters_of(function);
    move_references(parameters, ToolSchemas::pointer(schemas.names.size()));
    definitions["arguments" + std::to_string(schemas.names.size())] = std::move(parameters);
    schemas.names.push_back(function["name"]);
  });
  schemas.document = Json({{"$defs", std::move(definitions)}}).dump();
  return schemas;
}

std::string without_required(const std::string& tools) {
  Json list = Json::parse(tools);
  each_function(list, [](Json& function) { function["parameters"].erase("required"); });
  return list.dump();
}

std::map<std::string, std::set<std::string>> required_arguments(const std::string& tools) {
  Json list = Json::parse(tools, nullptr, false);
  std::map<std::string, std::set<std::string>> required;
  each_function(list, [&](const Json& function) {
    std::set<std::string>& names = required[function["name"]];
    const Json given = parameters_of(function), listed = given.is_object() ? given.value("required", Json()) : Json();
    for (const Json& name : listed.is_array() ? listed : Json::array())
      if (name.is_string()) names.insert(name.get<std::string>());
  });
  return required;
}

MarkedTools with_marks(const std::string& tools, MarkedPart part) {
  MarkedTools marked;
  Json list = Json::parse(tools, nullptr, false);
  const std::string begin = unused_number(tools);
  const auto mark_for = [&](const std::string& pointer) {
    std::string digits = std::to_string(marked.marks.size() + marked.mixed.size());
    digits.insert(0, 6 - std::min<std::size_t>(digits.size(), 6), '0');  // none is the beginning of another
    return SchemaMark{begin + digits, pointer};
  };
  const auto mark = [&](const std::string& pointer) {
    marked.marks.push_back(mark_for(pointer));
    return Json({{"const", std::stoll(marked.marks.back().text)}});
  };
  const auto types = argument_types(tools);
  std::size_t tool = 0;
  each_function(list, [&](Json& function) {
    const Json schema = parameters_of(function);
    const std::string place = ToolSchemas::pointer(tool++);
    if (part == MarkedPart::arguments) {
      function["parameters"] = mark(place);
      return;
    }
    const auto ignore = [&](const Json& keywords, const std::string& pointer) {
      add_keywords(keywords, pointer, marked.ignored);
    };
    const auto leaf = [&](const Json& inside, const std::string& pointer) {
      const ArgumentTypes allowed = types_in(inside, schema);
      if (!allowed.string && !allowed.object && !allowed.array) return mark(pointer);
      ignore(inside, pointer);
      return types_of(allowed);
    };
    const auto argument = [&](const std::string& name, const ArgumentTypes& allowed) {
      const std::string pointer = place + "/properties" + escaped(name);
      const bool has_parts = allowed.object || allowed.array;
      if (part == MarkedPart::each_leaf && has_parts)
        return form_of(schema["properties"][name], pointer, {leaf, ignore});
      if (!allowed.string) return mark(pointer);
      if (!allowed.is_string_only()) marked.mixed[{function["name"], name}] = mark_for(pointer);
      ignore(schema["properties"][name], pointer);
      return types_of(allowed);
    };
    function["parameters"] = object_of(schema, types.at(function["name"]), argument);
    ignore(without_form(schema), place);
  });
  marked.tools = list.dump();
  return marked;
}

std::string with_types_only(const std::string& tools) {
  Json list = Json::parse(tools, nullptr, false);
  const auto types = argument_types(tools);
  each_function(list, [&](Json& function) {
    const Json schema = parameters_of(function);
    const auto argument = [&](const std::string& name, const ArgumentTypes& allowed) {
      const bool has_parts = allowed.object || allowed.array;
      const Parts parts{[&](const Json& inside, const std::string&) { return types_of(types_in(inside, schema)); },
                        [](const Json&, const std::string&) {}};
      return has_parts ? form_of(schema["properties"][name], "", parts) : types_of(allowed);
    };
    function["parameters"] = object_of(schema, types.at(function["name"]), argument);
  });
  return list.dump();
}

}  // namespace specdec
