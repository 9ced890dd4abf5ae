#include "chat/argument_types.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/json_depth.h"
#include "chat/json_scan.h"
#include "chat/schema_types.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_references = 32, max_schema_depth = 200;
const ArgumentTypes none = {false, false, false, false, false, false, false};

void allow(ArgumentTypes& types, const std::string& name) {
  if (name == "string") types.string = true;
  else if (name == "number") types.fraction = types.whole = true;
  else if (name == "integer") types.whole = true;
  else if (name == "boolean") types.boolean = true;
  else if (name == "null") types.null = true;
  else if (name == "object") types.object = true;
  else if (name == "array") types.array = true;
}

// Whole numbers may be written with a fraction of zero.
bool is_whole(const Json& number) {
  return number.is_number_integer() || number.get<double>() == std::trunc(number.get<double>());
}

void allow_type_of(ArgumentTypes& types, const Json& value) {
  if (value.is_string()) types.texts.insert(value.get<std::string>());
  if (value.is_number()) (is_whole(value) ? types.whole : types.fraction) = true;
  else allow(types, value.type_name());
}

template <class Combine>
ArgumentTypes combined(const ArgumentTypes& a, const ArgumentTypes& b, Combine combine) {
  ArgumentTypes types = {combine(a.string, b.string), combine(a.fraction, b.fraction),
                         combine(a.whole, b.whole),   combine(a.boolean, b.boolean),
                         combine(a.null, b.null),     combine(a.object, b.object),
                         combine(a.array, b.array),   a.texts};
  types.texts.insert(b.texts.begin(), b.texts.end());
  return types;
}
ArgumentTypes either(const ArgumentTypes& a, const ArgumentTypes& b) {
  return combined(a, b, [](bool x, bool y) { return x || y; });
}
ArgumentTypes both(const ArgumentTypes& a, const ArgumentTypes& b) {
  return combined(a, b, [](bool x, bool y) { return x && y; });
}

// `budget`: references that may still be followed, in all.
ArgumentTypes types_of(const Json& schema, const Json& document, int& budget) {
  ArgumentTypes types;
  if (!schema.is_object()) return types;
  if (const auto type = schema.find("type"); type != schema.end()) {
    types = none;
    for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
      if (name.is_string()) allow(types, name.get<std::string>());
    }
  }
  if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string() && budget-- > 0) {
    const auto text = reference->get<std::string>();
    try {
      if (text.compare(0, 1, "#") == 0)
        types = both(types, types_of(document.at(Json::json_pointer(text.substr(1))), document, budget));
    } catch (const Json::exception&) {  // it leads nowhere: any type
    }
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    ArgumentTypes listed = none;
    for (const Json& value : *values) allow_type_of(listed, value);
    types = both(types, listed);
  }
  if (const auto value = schema.find("const"); value != schema.end()) {
    ArgumentTypes listed = none;
    allow_type_of(listed, *value);
    types = both(types, listed);
  }
  for (const char* const name : {"anyOf", "oneOf", "allOf"}) {
    const auto schemas = schema.find(name);
    if (schemas == schema.end() || !schemas->is_array() || schemas->empty()) continue;
    const bool is_all = name[1] == 'l';
    ArgumentTypes result = is_all ? ArgumentTypes() : none;
    for (const Json& one : *schemas) {
      if (budget-- <= 0) return types;
      const ArgumentTypes more = types_of(one, document, budget);
      result = is_all ? both(result, more) : either(result, more);
    }
    types = both(types, result);
  }
  return types;
}

bool allows(const ArgumentTypes& types, const Json& value) {
  ArgumentTypes of_value = none;
  allow_type_of(of_value, value);
  const ArgumentTypes common = both(types, of_value);
  return common.string || common.fraction || common.whole || common.boolean || common.null || common.object ||
         common.array;
}

// A Python literal as JSON: {'a': [True, None]}, which is how templates print objects without tojson. Text that is none
// does not become JSON.
std::string json_of_python(const std::string& text) {
  static const std::map<std::string, const char*> words = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
  static const std::map<char, const char*> escapes = {{'n', "\n"}, {'t', "\t"}, {'r', "\r"}};
  std::string json;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'' || text[i] == '"') {
      const char quote = text[i];
      std::string content;
      for (++i; i < text.size() && text[i] != quote; ++i) {
        const bool is_escape = text[i] == '\\' && i + 1 < text.size();
        i += text[i] == '\\' ? 1 : 0;
        if (is_escape) {
          const auto escape = escapes.find(text[i]);
          const bool is_itself = text[i] == '\\' || text[i] == '\'' || text[i] == '"';
          if (escape == escapes.end() && !is_itself) return "";
          content += is_itself ? std::string(1, text[i]) : escape->second;
        } else if (i < text.size()) {
          content += text[i];
        }
      }
      if (i == text.size()) return "";
      json += "\"" + json_escaped(content) + "\"";
    } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      std::size_t end = i;
      while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
      const std::string word = text.substr(i, end - i);
      const auto known = words.find(word);
      json += known == words.end() ? word : known->second;
      i = end - 1;
    } else {
      json += text[i];
    }
  }
  return json;
}

}  // namespace

ArgumentTypes types_in(const Json& schema, const Json& document) {
  int budget = max_references;
  return types_of(schema, document, budget);
}

std::map<std::string, std::map<std::string, ArgumentTypes>> argument_types(const std::string& tools) {
  std::map<std::string, std::map<std::string, ArgumentTypes>> functions;
  const Json list = Json::parse(tools, nullptr, false);
  for (const Json& tool : list.is_array() ? list : Json::array()) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    const Json& function = tool["function"];
    if (!function.contains("name") || !function["name"].is_string()) continue;
    auto& parameters = functions[function["name"].get<std::string>()];
    if (!function.contains("parameters") || !function["parameters"].is_object()) continue;
    const Json& schema = function["parameters"];
    if (!schema.contains("properties") || !schema["properties"].is_object()) continue;
    for (const auto& [name, property] : schema["properties"].items()) parameters[name] = types_in(property, schema);
  }
  return functions;
}

std::string argument_json(const std::string& text, const ArgumentTypes& types) {
  std::string quoted = "\"" + json_escaped(text) + "\"";
  if (types.is_string_only() || json_depth(text) > max_schema_depth) return quoted;
  const std::size_t begin = skip_blank(text, 0);
  std::string trimmed = text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - std::min(begin, text.size()));
  if (begin == text.size()) return quoted;
  if (!types.string && types.boolean && (trimmed == "True" || trimmed == "False"))
    trimmed[0] = trimmed == "True" ? 't' : 'f';
  if (!types.string && types.null && trimmed == "None") trimmed = "null";
  const bool is_compound = !types.string && (types.object || types.array);
  if (is_compound && !Json::accept(trimmed)) trimmed = json_of_python(trimmed);
  const Json value = Json::parse(trimmed, nullptr, false);
  if (value.is_discarded()) return quoted;
  if (types.string)
    return !value.is_string() && types.texts.count(trimmed) == 0 && allows(types, value) ? trimmed : quoted;
  return trimmed;
}

}  // namespace specdec
