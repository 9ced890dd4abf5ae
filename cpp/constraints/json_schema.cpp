#include "constraints/json_schema.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "base/argument.h"
#include "base/index.h"
#include "base/json_depth.h"
#include "constraints/limits.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::set<std::string>;

constexpr int max_pattern_count = 128;   // xgrammar's kLargeRepeatThreshold
constexpr int max_pattern_length = 32;   // a longer maxLength is counted while the string is written
constexpr int max_schemas = 500;         // each property is one; 1500 optional ones take 5 seconds
constexpr std::size_t max_values = 500;  // of an array or names that must differ
constexpr int max_choices = 64;          // sets of properties if their number is limited

// Keywords of JSON Schema and OpenAPI that do not change which values are valid. "$defs" are checked in place.
const Names annotations = {
    "title",    "description",   "default",         "examples",         "example",       "$schema",     "$id",
    "$comment", "$anchor",       "deprecated",      "readOnly",         "writeOnly",     "$defs",       "definitions",
    "xml",      "discriminator", "contentEncoding", "contentMediaType", "contentSchema", "externalDocs"};

bool is_annotation(const std::string& name) { return annotations.count(name) != 0 || name.compare(0, 2, "x-") == 0; }

// The keywords that are enforced in addition to "type".
const std::pair<const char*, Names> keywords_of_types[] = {
    {"object",
     {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "propertyNames",
      "patternProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
    {"string", {"minLength", "maxLength", "pattern", "format"}},
    {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
    {"boolean", {}},
    {"null", {}},
};
// The formats that xgrammar knows.
const Names formats = {"ipv4", "ipv6"};

// The formats that are enforced as patterns; any other format is an annotation, as in JSON Schema. The patterns may be
// narrower than the formats: days exist, times have the offset that RFC 3339 asks for, hosts have ASCII letters.
std::map<std::string, std::string> patterns_of_formats() {
  const std::string date =
      "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
      "|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|[0-9]{2}(0[48]|[2468][048]|[13579][26])-02-29)";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string clock = "T([0-9]{1,5}H([0-9]{1,5}M)?([0-9]{1,5}S)?|[0-9]{1,5}M([0-9]{1,5}S)?|[0-9]{1,5}S)";
  const auto uuid = [](const std::string& version) {
    const std::string hex = "[0-9a-f]";
    return hex + "{8}-" + hex + "{4}-" + version + hex + "{3}-" + "[89ab]" + hex + "{3}-" + hex + "{12}";
  };
  std::map<std::string, std::string> patterns = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P([0-9]{1,5}D(" + clock + ")?|" + clock + ")"},
      {"uuid", uuid("[1-8]")},
      {"email", "[A-Za-z0-9]+([._+-][A-Za-z0-9]+)*@([A-Za-z0-9]+([.-][A-Za-z0-9]+)*[.])?[A-Za-z]+[.][A-Za-z]{2,}"},
      {"uri", "[a-z][a-z0-9+.-]*:[A-Za-z0-9._~!$&()*+,;=:@%/?#-]+"},
  };
  for (const char version : std::string("12345678")) patterns[std::string("uuid") + version] = uuid({version});
  return patterns;
}

// For "uri" with a maxLength, which is how pydantic writes HttpUrl.
const char* const web_address =
    "https?://([A-Za-z0-9]+[.-])*[A-Za-z][A-Za-z0-9]*(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~!$&()*+,;=:@/-]*)?";

const std::string* pattern_of_format(const std::string& format) {
  static const std::map<std::string, std::string> patterns = patterns_of_formats();
  const auto found = patterns.find(format);
  return found == patterns.end() ? nullptr : &found->second;
}

// pydantic's pattern of a Decimal, which looks ahead, and one that does not.
const char* const pydantic_decimal = R"(^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$)";
const char* const plain_decimal = "^[+-]?[0-9]{1,16}([.][0-9]{1,16})?$";

const Names* keywords_of(const std::string& type) {
  for (const auto& [name, keywords] : keywords_of_types) {
    if (type == name) return &keywords;
  }
  return nullptr;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return value.is_null();
}

int num_objects(const Json& value) {
  int count = value.is_object() ? 1 : 0;
  if (value.is_structured()) {
    for (const Json& one : value) count += num_objects(one);
  }
  return count;
}

// Whether all values that the other keywords allow also satisfy this keyword, which is not enforced.
bool is_always_satisfied(const Json& schema, const std::string& name, const Json& value) {
  const auto count_of = [&](const char* list) { return schema.contains(list) ? schema.at(list).size() : 0; };
  const auto is_at_most_one = [&] {
    return schema.contains("maxItems") && schema.at("maxItems").is_number() && schema.at("maxItems") <= 1;
  };
  if (name == "uniqueItems") return value == false || is_at_most_one();
  if (name == "minProperties") return value.is_number_unsigned() && value.get<std::uint64_t>() <= count_of("required");
  if (name == "maxProperties") {
    const bool is_closed = schema.contains("properties") &&
                           (!schema.contains("additionalProperties") || schema.at("additionalProperties") == false);
    return is_closed && value.is_number_unsigned() && value.get<std::uint64_t>() >= count_of("properties");
  }
  if (name == "propertyNames") return value == true || value == Json::object() || value == Json({{"type", "string"}});
  return name == "nullable" && value == false;
}

// Whether the name is written without escapes in JSON and in pointers.
bool is_plain_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '~'; });
}

// The text of a value that the grammar writes in only one way; nullopt if there are several ways, or if the value has
// parts.
std::optional<std::string> text_of(const Json& value) {
  const bool is_plain = value.is_string() || value.is_number_integer() || value.is_boolean() || value.is_null();
  if (!is_plain) return std::nullopt;
  if (value.is_string() && value.get_ref<const std::string&>().find('\x7f') != std::string::npos) return std::nullopt;
  return value.dump();
}

// The property whose value the schema at this place (or at an alternative of it) describes; "": the whole output.
// Nullopt: the place has no name of its own.
std::optional<std::string> owner_at(const std::string& pointer) {
  std::optional<std::string> owner = "";
  std::istringstream parts(pointer.substr(std::min<std::size_t>(1, pointer.size())));
  for (std::string part; std::getline(parts, part, '/');) {
    std::string next;
    if (part == "anyOf" || part == "oneOf" || part == "allOf") {
      std::getline(parts, next, '/');
      continue;
    }
    owner.reset();
    if (part == "properties" || part == "$defs" || part == "definitions") std::getline(parts, next, '/');
    if (part == "properties" && is_plain_name(next)) owner = next;
  }
  return owner;
}

class Checker {
 public:
  Checker(const Json& root, bool is_strict, bool is_whole) : root_(root), is_strict_(is_strict), is_whole_(is_whole) {}

  // The schema without keywords that are not enforced. pointer: its place.
  Json checked(const Json& schema, const std::string& pointer, int depth) {
    if (depth > max_constraint_depth)
      fail(pointer, "is nested more than " + std::to_string(max_constraint_depth) + " levels deep");
    if (++num_schemas_ > max_schemas) fail(pointer, "exceeds the limit of " + std::to_string(max_schemas) + " schemas");
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) fail(pointer, "is false, which no value satisfies");
      return schema;
    }
    if (!schema.is_object()) fail(pointer, "is not a schema: it must be an object or true");
    if (schema.contains("nullable") && schema.at("nullable") == true) return checked_nullable(schema, pointer, depth);
    Json out = Json::object();
    for (const char* name : {"$defs", "definitions"}) {
      if (schema.contains(name)) out[name] = checked_members(schema, name, pointer, depth);
    }
    for (const char* form : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
      if (!schema.contains(form)) continue;
      const bool has_values = std::string(form) == "const" || std::string(form) == "enum";
      only(schema, has_values ? Names{form, "type"} : Names{form}, pointer, std::string(" together with ") + form);
      Json value = checked_form(schema, form, pointer, depth);
      const bool is_told_apart = std::string(form) == "oneOf" && are_told_apart(schema.at(form));
      out[is_told_apart ? "anyOf" : form] = std::move(value);
      return out;
    }
    return checked_types(schema, pointer, depth, std::move(out));
  }

  // A rule for the arrays or objects of a property applies to all properties of that name, so the rules must be the
  // same.
  void settle_distinct() {
    for (const auto& [rules, limits] : {std::pair(&items_, &limits_.items), std::pair(&names_, &limits_.names)}) {
      for (const auto& [owner, found] : *rules) {
        const bool are_same = std::all_of(found.begin(), found.end(), [&, &first = found.front()](const auto& one) {
          return one.rule == first.rule;
        });
        for (const DistinctAt& one : found) {
          if (one.rule && are_same) (*limits)[owner] = *one.rule;
          else if (one.rule && one.is_needed)
            unsupported(one.place, " where another property of this name has other values");
        }
      }
    }
  }

  const std::vector<std::string>& patterns() const { return patterns_; }
  const JsonLimits& limits() const { return limits_; }
  const std::vector<std::string>& ignored() const { return ignored_; }
  std::int64_t num_places() const { return num_places_; }

 private:
  [[noreturn]] static void fail(const std::string& pointer, const std::string& problem) {
    throw ArgumentError("json_schema", "cannot be used: " + (pointer.empty() ? "the schema" : pointer) + " " + problem);
  }
  static void check_pattern(const std::string& pattern, const std::string& pointer) {
    try {
      check_nesting_and_counts(pointer, pattern, false);
    } catch (const ArgumentError& error) {
      throw ArgumentError("json_schema", std::string("cannot be used: ") + error.what());
    }
  }
  // Throws, unless the caller takes care of the keyword.
  void unsupported(const std::string& place, const std::string& where) {
    if (is_strict_) fail(place, "is not supported" + where + "; leave it out, or ask for a schema that is not strict");
    if (std::find(ignored_.begin(), ignored_.end(), place) == ignored_.end()) ignored_.push_back(place);
  }
  // Reports all other keywords as not supported.
  void only(const Json& schema, const Names& keywords, const std::string& pointer, const std::string& where) {
    for (const auto& [name, value] : schema.items()) {
      if (keywords.count(name) != 0 || is_annotation(name) || is_always_satisfied(schema, name, value)) continue;
      unsupported(pointer + (Json::json_pointer() / name).to_string(), where);
    }
  }

  // Whether the schemas describe objects that all require a property whose const or enum values differ between them (a
  // discriminated union), so that no value satisfies two of them. Other cases are left to xgrammar's own proof.
  bool are_told_apart(const Json& schemas) const {
    const Json& first = resolved(schemas.at(0));
    if (!first.is_object() || !first.contains("required")) return false;
    const Json& names = first.at("required");
    return std::any_of(names.begin(), names.end(),
                       [&](const Json& name) { return name.is_string() && tells_apart(schemas, name); });
  }

  bool tells_apart(const Json& schemas, const std::string& name) const {
    std::set<std::string> seen;
    for (const Json& one : schemas) {
      const Json& schema = resolved(one);
      const bool is_object = schema.is_object() && schema.value("type", Json()) == "object" &&
                             schema.contains("required") && schema.contains("properties") &&
                             schema.at("properties").contains(name);
      if (!is_object) return false;
      const Json& required = schema.at("required");
      if (std::find(required.begin(), required.end(), Json(name)) == required.end()) return false;
      const Json& property = resolved(schema.at("properties").at(name));
      if (!property.is_object() || (!property.contains("const") && !property.contains("enum"))) return false;
      const Json values = property.contains("const") ? Json::array({property.at("const")}) : property.at("enum");
      for (const Json& value : values) {
        if (!value.is_string() || !seen.insert(value.get<std::string>()).second) return false;
      }
    }
    return true;
  }

  // The schema that a local reference, already checked, points to.
  const Json& resolved(const Json& schema) const {
    const Json* at = &schema;
    while (at->is_object() && at->contains("$ref")) {
      at = &root_.at(nlohmann::ordered_json::json_pointer(at->at("$ref").get<std::string>().substr(1)));
    }
    return *at;
  }

  // OpenAPI's keyword "nullable", which also allows null.
  Json checked_nullable(const Json& schema, const std::string& pointer, int depth) {
    Json others = schema;
    others.erase("nullable");
    Json out = Json::object();
    Json other = checked(others, pointer, depth + 1);
    for (const char* name : {"$defs", "definitions"}) {  // kept where references find them
      if (!other.contains(name)) continue;
      out[name] = other.at(name);
      other.erase(name);
    }
    out["anyOf"] = Json::array({std::move(other), {{"type", "null"}}});
    return out;
  }

  Json checked_form(const Json& schema, const std::string& form, const std::string& pointer, int depth) {
    const std::string place = pointer + "/" + form;
    const Json& value = schema.at(form);
    if (form == "$ref") return checked_reference(value, place, depth);
    if (form == "const") {
      require_type(schema, value, place);
      return value;
    }
    if (!value.is_array() || value.empty()) fail(place, "must be an array that is not empty");
    if (form == "enum") {
      for (const Json& one : value) require_type(schema, one, place);
      return value;
    }
    if (form == "allOf" && value.size() > 1) fail(place, "is supported with one schema only");
    Json out = Json::array();
    for (std::size_t i = 0; i < value.size(); ++i)
      out.push_back(checked(value[i], place + "/" + std::to_string(i), depth + 1));
    return out;
  }

  static void require_type(const Json& schema, const Json& value, const std::string& place) {
    if (!schema.contains("type")) return;
    const Json& type = schema.at("type");
    const Json types = type.is_array() ? type : Json::array({type});
    for (const Json& one : types) {
      if (one.is_string() && keywords_of(one.get<std::string>()) != nullptr &&
          is_of_type(value, one.get<std::string>()))
        return;
    }
    fail(place, "has a value that is not of the schema's type: " + value.dump());
  }

  // A reference to a schema in the same text. That schema is checked once, at its own place.
  Json checked_reference(const Json& value, const std::string& place, int depth) {
    const std::string reference = value.is_string() ? value.get<std::string>() : "";
    if (reference != "#" && reference.compare(0, 2, "#/") != 0)
      fail(place, "must be \"#\" or begin with \"#/\": references are local");
    if (reference.find_first_of("~%") != std::string::npos || reference.find("//") != std::string::npos ||
        reference.back() == '/') {
      fail(place, "has an escaped or empty name, which is not supported");
    }
    const Json* target = &root_;
    std::vector<std::string> chain;  // of references to references
    for (std::string to = reference;;) {
      if (std::find(chain.begin(), chain.end(), to) != chain.end()) fail(place, "refers to itself");
      chain.push_back(to);
      try {
        target = &root_.at(nlohmann::ordered_json::json_pointer(to.substr(1)));
      } catch (const Json::exception&) {
        fail(place, "points nowhere: " + to);
      }
      if (!target->is_object() || !target->contains("$ref") || !target->at("$ref").is_string()) break;
      to = target->at("$ref").get<std::string>();
      if (to.compare(0, 1, "#") != 0) break;  // reported at its own place
    }
    if (references_.insert(reference).second && reference != "#") {
      checked(root_.at(nlohmann::ordered_json::json_pointer(reference.substr(1))), reference.substr(1), depth + 1);
    }
    return value;
  }

  Json checked_types(const Json& schema, const std::string& pointer, int depth, Json out) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json& type = schema.at("type");
      const Json listed = type.is_array() ? type : Json::array({type});
      if (listed.empty()) fail(pointer + "/type", "is empty");
      for (const Json& one : listed) {
        if (!one.is_string() || keywords_of(one.get<std::string>()) == nullptr) {
          fail(pointer + "/type", "is " + one.dump() + ", which is not a type");
        }
        types.push_back(one.get<std::string>());
      }
      out["type"] = type;
    } else if (schema.contains("properties") || schema.contains("additionalProperties")) {
      types = {"object"};
      out["type"] = "object";
    } else if (schema.contains("items") || schema.contains("prefixItems")) {
      types = {"array"};
      out["type"] = "array";
    }
    Names keywords = {"type"};
    for (const std::string& type : types) keywords.insert(keywords_of(type)->begin(), keywords_of(type)->end());
    only(schema, keywords, pointer, types.empty() ? " without a type" : " for this type");
    for (const std::string& type : types) {
      if (type == "object") add_object(schema, pointer, depth, out);
      if (type == "array") add_array(schema, pointer, depth, out);
      if (type == "string") add_string(schema, pointer, out);
      if (type == "integer" || type == "number") add_number(schema, pointer, out);
      if (type == "integer" && !is_whole_) bound(out);
    }
    return out;
  }

  Json checked_members(const Json& schema, const char* name, const std::string& pointer, int depth) {
    const std::string place = pointer + "/" + name;
    if (!schema.at(name).is_object()) fail(place, "must be an object");
    Json out = Json::object();
    for (const auto& [key, member] : schema.at(name).items())
      out[key] = checked(member, place + (Json::json_pointer() / key).to_string(), depth + 1);
    return out;
  }

  void add_object(const Json& schema, const std::string& pointer, int depth, Json& out) {
    if (schema.contains("properties")) out["properties"] = checked_members(schema, "properties", pointer, depth);
    if (schema.contains("required")) {
      const Json& required = schema.at("required");
      if (!required.is_array()) fail(pointer + "/required", "must be an array of names");
      for (const Json& name : required) {
        if (!name.is_string()) fail(pointer + "/required", "must be an array of names");
        if (!out.contains("properties") || !out["properties"].contains(name.get<std::string>())) {
          fail(pointer + "/required", "names " + name.dump() + ", which is not in properties");
        }
      }
      out["required"] = required;
    }
    if (schema.contains("additionalProperties")) {
      const Json& others = schema.at("additionalProperties");
      out["additionalProperties"] =
          others == false ? others : checked(others, pointer + "/additionalProperties", depth + 1);
    } else if (!schema.contains("properties")) {
      out["additionalProperties"] = !schema.contains("patternProperties");
    }
    const bool is_closed = out.contains("properties") && out.value("additionalProperties", Json(false)) == false;
    std::vector<std::string> rules;
    for (const char* name : {"minProperties", "maxProperties", "propertyNames", "patternProperties"}) {
      if (schema.contains(name) && !is_always_satisfied(schema, name, schema.at(name))) rules.emplace_back(name);
    }
    const bool is_counted = std::all_of(rules.begin(), rules.end(), [](const std::string& name) {
      return name == "minProperties" || name == "maxProperties";
    });
    if (!rules.empty() && is_closed && is_counted && out.value("type", Json()) == "object")
      return add_choices(schema, pointer + "/" + rules[0], out);
    for (const std::string& name : rules) {
      if (schema.contains("properties")) unsupported(pointer + "/" + name, " together with properties");
      else add_property_rule(schema, name, pointer, depth, out);
    }
    if (!schema.contains("properties")) add_distinct_names(schema, pointer, out);
  }

  // Adds one object schema for each set of optional properties that gives an allowed number of properties.
  void add_choices(const Json& schema, const std::string& place, Json& out) {
    const Json& properties = out.at("properties");
    const Json required = out.value("required", Json::array());
    std::vector<std::string> optional;
    for (const auto& [name, property] : properties.items()) {
      if (std::find(required.begin(), required.end(), Json(name)) == required.end()) optional.push_back(name);
    }
    const auto count = [&](const char* name, std::uint64_t fallback) {
      if (!schema.contains(name)) return fallback;
      if (!schema.at(name).is_number_unsigned()) fail(place, "must be a whole number of at least 0");
      return schema.at(name).get<std::uint64_t>();
    };
    const std::uint64_t least = count("minProperties", 0), most = count("maxProperties", properties.size());
    if (least > properties.size() || most < required.size()) fail(place, "allows no number of properties");
    if (optional.size() > 16) return unsupported(place, " with so many properties that are not required");
    Json choices = Json::array();
    for (std::uint32_t set = 0; set < 1u << optional.size(); ++set) {
      Json chosen = Json::object(), names = Json::array();
      for (const auto& [name, property] : properties.items()) {
        const auto at = std::find(optional.begin(), optional.end(), name) - optional.begin();
        if (idx(at) < optional.size() && (set >> at & 1) == 0) continue;
        chosen[name] = property;
        names.push_back(name);
      }
      if (chosen.size() < least || chosen.size() > most) continue;
      if (choices.size() == idx(max_choices))
        return unsupported(place, " with so many properties that are not required");
      num_schemas_ += num_objects(chosen);
      if (num_schemas_ > max_schemas) return unsupported(place, " with so many schemas of properties");
      choices.push_back({{"type", "object"},
                         {"properties", std::move(chosen)},
                         {"required", std::move(names)},
                         {"additionalProperties", false}});
    }
    for (const char* name : {"type", "properties", "required", "additionalProperties"}) out.erase(name);
    out["anyOf"] = std::move(choices);
  }

  // For an object that lists no properties. Only one pattern may apply to a property.
  void add_property_rule(const Json& schema, const std::string& name, const std::string& pointer, int depth,
                         Json& out) {
    const Json& value = schema.at(name);
    const std::string place = pointer + "/" + name;
    if (name == "propertyNames") {
      Json names = value;
      if (names.is_object() && !names.contains("type") && !names.contains("$ref")) names["type"] = "string";
      out[name] = checked(names, place, depth + 1);
    } else if (name == "patternProperties") {
      if (!value.is_object()) fail(place, "must be an object");
      const bool is_alone =
          value.size() == 1 && (!schema.contains("additionalProperties") || schema.at("additionalProperties") == false);
      if (!is_alone) return unsupported(place, " with other patterns or additionalProperties");
      out[name] = checked_members(schema, "patternProperties", pointer, depth);
      const std::string pattern = value.begin().key();
      check_pattern(pattern, place);
      patterns_.push_back(Json({{"type", "string"}, {"pattern", pattern}}).dump());
    } else {
      add_count(schema, name.c_str(), pointer, out);
    }
  }

  // Names may repeat unless they must differ, so a count above one is meaningful only if they must. If there are only a
  // few names, each comes at most once, so that the object ends.
  void add_distinct_names(const Json& schema, const std::string& pointer, Json& out) {
    constexpr std::size_t most_names = 64;
    const std::string place = pointer + "/minProperties";
    const std::optional<std::string> owner = owner_at(pointer);
    const bool is_counted = out.contains("minProperties") && out.at("minProperties") > 1;
    const bool has_rule = schema.contains("propertyNames") || schema.contains("patternProperties");
    const Json names = schema.value("propertyNames", Json(true));
    const auto values = values_of(names);
    const bool are_few = values && values->size() <= most_names && !schema.contains("patternProperties");
    const bool are_any = !has_rule || is_always_satisfied(schema, "propertyNames", names) || is_endless(names);
    const bool can_differ = is_whole_ && owner && (are_few || (are_any && !schema.contains("patternProperties")));
    if (!can_differ && is_counted) {
      out.erase("minProperties");
      return unsupported(place, " above 1 with these names");
    }
    if (!can_differ || !(is_counted || are_few)) {
      if (owner && has_rule) names_[*owner].push_back({std::nullopt, place, false});
      return;
    }
    if (are_few) {
      if (is_counted && out.at("minProperties") > values->size())
        fail(place, "is more than the " + std::to_string(values->size()) + " names that there are");
      if (!out.contains("maxProperties") || out.at("maxProperties") > values->size())
        out["maxProperties"] = values->size();
      count_places(static_cast<int>(values->size()));
    }
    names_[*owner].push_back({Distinct{are_few ? *values : std::vector<std::string>()}, place, is_counted});
  }

  void add_array(const Json& schema, const std::string& pointer, int depth, Json& out) {
    if (schema.contains("prefixItems")) {
      const Json& items = schema.at("prefixItems");
      if (!items.is_array()) fail(pointer + "/prefixItems", "must be an array");
      out["prefixItems"] = Json::array();
      for (std::size_t i = 0; i < items.size(); ++i) {
        const std::string place = pointer + "/prefixItems/" + std::to_string(i);
        if (!items[i].is_object()) fail(place, "must be an object");
        out["prefixItems"].push_back(checked(items[i], place, depth + 1));
      }
    }
    if (schema.contains("items")) {
      const Json& items = schema.at("items");
      out["items"] = items == false ? items : checked(items, pointer + "/items", depth + 1);
    } else if (!schema.contains("prefixItems")) {
      out["items"] = Json::object();
    }
    add_count(schema, "minItems", pointer, out);
    add_count(schema, "maxItems", pointer, out);
    add_distinct_items(schema, pointer);
  }

  // The values of a schema, if there are few and each is written in only one way.
  std::optional<std::vector<std::string>> values_of(const Json& unresolved) const {
    const Json& schema = resolved(unresolved);
    if (!schema.is_object()) return std::nullopt;
    Json values = Json::array();
    if (schema.contains("anyOf")) {
      std::vector<std::string> all;
      for (const Json& one : schema.at("anyOf")) {
        const auto some = values_of(one);
        if (!some) return std::nullopt;
        all.insert(all.end(), some->begin(), some->end());
      }
      return all;
    }
    if (schema.contains("const")) values = Json::array({schema.at("const")});
    else if (schema.contains("enum")) values = schema.at("enum");
    else if (schema.value("type", Json()) == "boolean") values = {true, false};
    else if (schema.value("type", Json()) == "null") values = Json::array({nullptr});
    else if (schema.value("type", Json()) == "integer" && !schema.contains("multipleOf")) values = integers_of(schema);
    std::vector<std::string> texts;
    for (const Json& value : values) {
      const auto text = text_of(value);
      if (!text) return std::nullopt;
      if (std::find(texts.begin(), texts.end(), *text) == texts.end()) texts.push_back(*text);
    }
    if (texts.empty() || texts.size() > max_values) return std::nullopt;
    return texts;
  }

  // The integers from the minimum to the maximum; empty if there are too many.
  static Json integers_of(const Json& schema) {
    const auto bound = [&](const char* inclusive, const char* exclusive, int step) -> std::optional<std::int64_t> {
      const bool is_inclusive = schema.contains(inclusive);
      if (is_inclusive == schema.contains(exclusive)) return std::nullopt;
      const Json& value = schema.at(is_inclusive ? inclusive : exclusive);
      constexpr std::int64_t most = 1'000'000'000;
      if (!value.is_number_integer() || value > most || value < -most) return std::nullopt;
      return value.get<std::int64_t>() + (is_inclusive ? 0 : step);
    };
    Json values = Json::array();
    const auto least = bound("minimum", "exclusiveMinimum", 1), most = bound("maximum", "exclusiveMaximum", -1);
    if (!least || !most || *most - *least >= static_cast<std::int64_t>(max_values)) return values;
    for (std::int64_t value = *least; value <= *most; ++value) values.push_back(value);
    return values;
  }

  // Whether the schema allows strings or integers of any length.
  bool is_endless(const Json& unresolved) const {
    const Json& schema = resolved(unresolved);
    if (!schema.is_object() || schema.contains("nullable")) return false;
    const Json type = schema.value("type", Json());
    const auto has = [&](const char* name) { return schema.contains(name); };
    if (type == "integer") {
      const bool is_positive = (has("minimum") && schema.at("minimum") >= 0) ||
                               (has("exclusiveMinimum") && schema.at("exclusiveMinimum") >= -1);
      const bool has_minimum = has("minimum") || has("exclusiveMinimum");
      return (is_positive || !has_minimum) && !has("maximum") && !has("exclusiveMaximum") && !has("multipleOf");
    }
    if (type != "string" || has("pattern") || has("maxLength") || has("enum") || has("const")) return false;
    if (!has("format")) return true;
    const Json& format = schema.at("format");
    return format.is_string() && formats.count(format) == 0 && pattern_of_format(format) == nullptr;
  }

  void add_distinct_items(const Json& schema, const std::string& pointer) {
    const std::string place = pointer + "/uniqueItems";
    const std::optional<std::string> owner = owner_at(pointer);
    const bool may_repeat =
        !schema.contains("uniqueItems") || is_always_satisfied(schema, "uniqueItems", schema.at("uniqueItems"));
    if (may_repeat) {
      if (owner) items_[*owner].push_back({std::nullopt, place, false});
      return;
    }
    if (schema.at("uniqueItems") != true) fail(place, "must be true or false");
    const Json items = schema.value("items", Json());
    const auto values = values_of(items);
    const bool can_differ = is_whole_ && owner && !schema.contains("prefixItems") && (values || is_endless(items));
    if (!can_differ) return unsupported(place, " for these items");
    const std::uint64_t least = schema.contains("minItems") ? schema.at("minItems").get<std::uint64_t>() : 0;
    if (values && least > values->size())
      fail(pointer + "/minItems", "is " + std::to_string(least) + ", but there are only " +
                                      std::to_string(values->size()) + " different items");
    items_[*owner].push_back({Distinct{values ? *values : std::vector<std::string>()}, place, true});
  }

  void add_string(const Json& schema, const std::string& pointer, Json& out) {
    const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
    if (schema.contains("pattern")) {
      if (!schema.at("pattern").is_string()) fail(pointer + "/pattern", "must be a string");
      std::string pattern = schema.at("pattern").get<std::string>();
      if (pattern == pydantic_decimal) pattern = plain_decimal;
      check_pattern(pattern, pointer + "/pattern");
      for (const char* name : {"minLength", "maxLength"}) {
        if (schema.contains(name)) unsupported(pointer + "/" + name, " together with pattern");
      }
      add_pattern(pattern, out);
    }
    const std::string format = format_of(schema, pointer);
    if (formats.count(format) == 0 && pattern_of_format(format) == nullptr) {
      if (has_length && !out.contains("pattern")) add_length(schema, pointer, out);
    } else if (out.contains("pattern")) {
      unsupported(pointer + "/format", " together with pattern");
    } else {
      add_format(schema, format, pointer, out);
    }
  }

  static std::string format_of(const Json& schema, const std::string& pointer) {
    if (!schema.contains("format")) return "";
    if (!schema.at("format").is_string()) fail(pointer + "/format", "must be a string");
    return schema.at("format").get<std::string>();
  }

  // A maxLength is counted while the text is written, which is possible only if the format can end anywhere.
  void add_format(const Json& schema, const std::string& format, const std::string& pointer, Json& out) {
    constexpr int shortest = 6, longest = 64;
    const bool is_uri = format == "uri";
    const int least = length_of(schema, "minLength", pointer, 0);
    const int most = length_of(schema, "maxLength", pointer, no_length);
    if (least > (is_uri ? 3 : shortest)) unsupported(pointer + "/minLength", " together with format");
    if (most != no_length) {
      if (is_uri && most >= longest) limit_length(pointer, most);
      else unsupported(pointer + "/maxLength", " together with format");
    }
    const std::string* const pattern = pattern_of_format(format);
    if (pattern == nullptr) out["format"] = format;
    else add_pattern("^" + (is_uri && most != no_length ? std::string(web_address) : *pattern) + "$", out);
  }

  void add_pattern(const std::string& pattern, Json& out) {
    out["pattern"] = pattern;
    patterns_.push_back(Json({{"type", "string"}, {"pattern", pattern}}).dump());
  }

  // Writes lengths, up to a limit, as a pattern: xgrammar's own form allows control characters, which JSON does not,
  // and its masks take up to 300 times as long.
  void add_length(const Json& schema, const std::string& pointer, Json& out) {
    int least = length_of(schema, "minLength", pointer, 0);
    int most = length_of(schema, "maxLength", pointer, no_length);
    if (most < least) fail(pointer + "/maxLength", "is less than minLength");
    if (least > max_counted_places) fail(pointer + "/minLength", "is more than " + std::to_string(max_counted_places));
    if (!is_whole_ && most != no_length && most > max_counted_places) {
      unsupported(pointer + "/maxLength", " above " + std::to_string(max_counted_places) + " in a part of the output");
      most = no_length;
    }
    const bool is_counted_later = most == no_length || (is_whole_ && most > max_pattern_length);
    if (is_counted_later && most != no_length) limit_length(pointer, most);
    if (is_counted_later && least == 0) return;
    if (is_counted_later) most = least;
    count_places(most);
    std::string pattern = "^";
    while (most > 0) {  // in parts that xgrammar accepts
      const int part = std::min(most, max_pattern_count), least_of_part = std::min(least, part);
      pattern += ".{" + std::to_string(least_of_part) + "," + std::to_string(part) + "}";
      most -= part;
      least -= least_of_part;
    }
    add_pattern(pattern + (is_counted_later ? ".*$" : "$"), out);
  }

  static constexpr int no_length = std::numeric_limits<int>::max();
  static int length_of(const Json& schema, const char* name, const std::string& pointer, int fallback) {
    if (!schema.contains(name)) return fallback;
    if (!schema.at(name).is_number_unsigned()) fail(pointer + "/" + name, "must be a whole number of at least 0");
    const auto length = schema.at(name).get<std::uint64_t>();
    return static_cast<int>(std::min<std::uint64_t>(length, no_length));
  }

  // Applies to the strings of this place's property, in any object.
  void limit_length(const std::string& pointer, int most) {
    const std::string property = property_at(pointer);
    int& length = property.empty() ? limits_.max_length : limits_.max_lengths.try_emplace(property, most).first->second;
    length = std::min(length, most);
  }

  // The property whose value, or an element of whose value, a schema describes; empty: unknown.
  static std::string property_at(const std::string& pointer) {
    std::string property;
    std::istringstream parts(pointer.substr(std::min<std::size_t>(1, pointer.size())));
    for (std::string part; std::getline(parts, part, '/');) {
      if (part == "properties") std::getline(parts, property, '/');
      else if (part == "$defs" || part == "definitions" || part == "additionalProperties") property.clear();
      if (part == "$defs" || part == "definitions") std::getline(parts, part, '/');
    }
    return is_plain_name(property) ? property : "";
  }

  static void add_number(const Json& schema, const std::string& pointer, Json& out) {
    for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
      if (!schema.contains(name)) continue;
      if (!schema.at(name).is_number()) fail(pointer + "/" + name, "must be a number");
      out[name] = schema.at(name);
    }
  }

  // Limits the digits of integers, as JsonLimits does for whole outputs.
  static void bound(Json& integer) {
    constexpr std::int64_t most = 9'999'999'999'999'999;
    if (!integer.contains("minimum") && !integer.contains("exclusiveMinimum")) integer["minimum"] = -most;
    if (!integer.contains("maximum") && !integer.contains("exclusiveMaximum")) integer["maximum"] = most;
  }

  void add_count(const Json& schema, const char* name, const std::string& pointer, Json& out) {
    if (!schema.contains(name)) return;
    const Json& count = schema.at(name);
    if (!count.is_number_unsigned()) fail(pointer + "/" + name, "must be a whole number of at least 0");
    const std::uint64_t number = count.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(max_counted_places))
      fail(pointer + "/" + name, "is more than " + std::to_string(max_counted_places));
    count_places(static_cast<int>(number));
    out[name] = count;
  }

  void count_places(int number) {
    num_places_ += number;
    if (num_places_ > max_counted_places) fail_too_many_places("json_schema");
  }

  struct DistinctAt {
    std::optional<Distinct> rule;  // nullopt: elements may repeat
    std::string place;
    bool is_needed;  // the schema needs the rule
  };
  std::map<std::string, std::vector<DistinctAt>> items_, names_;  // by owner
  const Json& root_;
  std::set<std::string> references_;
  std::vector<std::string> patterns_;
  bool is_strict_, is_whole_;
  JsonLimits limits_;
  std::vector<std::string> ignored_;
  std::int64_t num_places_ = 0;
  int num_schemas_ = 0;
};

// The most digits in a row in the schema, so that its bounds and constants can be written.
int longest_number(const std::string& text) {
  int longest = 0, length = 0;
  for (const char c : text) {
    length = c >= '0' && c <= '9' ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace

SupportedSchema supported_schema(const std::string& text, bool is_strict, bool is_whole) {
  check_constraint_text("json_schema", text);
  if (json_depth(text) > 4 * max_constraint_depth) throw ArgumentError("json_schema", "is nested too deeply");
  Json schema;
  try {
    schema = Json::parse(text);
  } catch (const Json::exception& error) {
    throw ArgumentError("json_schema", std::string("is not JSON: ") + error.what());
  }
  if (schema == Json::object()) return {R"({"type":"object","additionalProperties":true})", {}, {}, {}, 0};
  Checker checker(schema, is_strict, is_whole);
  std::string supported = checker.checked(schema, "", 0).dump();
  checker.settle_distinct();
  JsonLimits limits = checker.limits();
  limits.max_digits = std::max(limits.max_digits, longest_number(text));
  return {std::move(supported), checker.patterns(), std::move(limits), checker.ignored(), checker.num_places()};
}

}  // namespace specdec
