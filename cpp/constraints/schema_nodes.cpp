#include "constraints/schema_nodes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/argument.h"
#include "base/index.h"
#include "constraints/limits.h"
#include "constraints/schema_formats.h"

namespace specdec {
namespace {

using Json = SchemaJson;
using Names = std::set<std::string>;

constexpr int max_schemas = 500, max_our_schemas = 20'000;
constexpr std::size_t max_nodes = 20'000;    // with those of intersections
constexpr std::size_t max_exclusive = 64;    // alternatives of a oneOf: each pair is compared
constexpr std::size_t max_patterns = 4;      // of an object's properties: each set of them is a case
constexpr std::uint64_t long_address = 512;  // a host name is shorter, and a path can end anywhere
constexpr std::size_t max_values = 500;      // that are told apart

// Keywords of JSON Schema and OpenAPI that do not change which values are valid.
const Names annotations = {
    "title",    "description",   "default",         "examples",         "example",       "$schema",     "$id",
    "$comment", "$anchor",       "deprecated",      "readOnly",         "writeOnly",     "$defs",       "definitions",
    "xml",      "discriminator", "contentEncoding", "contentMediaType", "contentSchema", "externalDocs"};

bool is_annotation(const std::string& name) { return annotations.count(name) != 0 || name.compare(0, 2, "x-") == 0; }

// The keywords of each kind of values, by index in SchemaAtom::form; the first: booleans and null.
const Names keywords_of_kinds[] = {{},
                                   {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
                                   {"minLength", "maxLength", "pattern", "format"},
                                   {"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"},
                                   {"properties", "required", "additionalProperties", "minProperties", "maxProperties",
                                    "propertyNames", "patternProperties"}};
const Names keywords_of_all = {"type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf", "nullable"};

bool is_enforced(const std::string& name) {
  return keywords_of_all.count(name) != 0 || std::any_of(std::begin(keywords_of_kinds), std::end(keywords_of_kinds),
                                                         [&](const Names& names) { return names.count(name) != 0; });
}

// Whether a keyword that is not enforced excludes nothing here.
bool excludes_nothing(const Json& schema, const std::string& name, const Json& value) {
  if (name == "not") return value == false;
  if (name == "if") return !schema.contains("then") && !schema.contains("else");
  if (name == "then" || name == "else") return !schema.contains("if");
  if (name == "minContains" || name == "maxContains") return !schema.contains("contains");
  if (name == "contains") return schema.value("minContains", Json()) == 0 && !schema.contains("maxContains");
  return value == true || value == Json::object();
}

std::string escaped(const std::string& name) { return (Json::json_pointer() / name).to_string(); }

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  return type == "boolean" && value.is_boolean();
}

// Not negative; also written as 3.0. nullopt: not such a number.
std::optional<std::uint64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double most = 1e15;
  if (!(number >= 0 && number <= most) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::uint64_t count(const Json& schema, const char* name, const std::string& place, std::uint64_t fallback) {
  if (!schema.contains(name)) return fallback;
  const std::optional<std::uint64_t> number = whole_number(schema.at(name));
  if (!number) SchemaNodes::fail(place + "/" + name, "must be a whole number of at least 0");
  return *number;
}

// A count of which each place is a rule.
std::uint64_t small_count(const Json& schema, const char* name, const std::string& place, std::uint64_t fallback) {
  const std::uint64_t number = count(schema, name, place, fallback);
  if (number != fallback && number > static_cast<std::uint64_t>(max_counted_places))
    SchemaNodes::fail(place + "/" + name, "is more than " + std::to_string(max_counted_places));
  return number;
}

std::string regex_of_texts(const std::vector<std::string>& texts) {
  std::string regex;
  for (const std::string& text : texts) {
    if (!regex.empty()) regex += '|';
    for (const char c : text.empty() ? "()" : text) {
      if (!text.empty() && std::string("\\^$.|?*+()[]{}/-").find(c) != std::string::npos) regex += '\\';
      regex += c;
    }
  }
  return "(" + regex + ")";
}

Pattern one_of_texts(const std::vector<std::string>& texts) {
  return Pattern(regex_of_texts(texts), Pattern::Match::whole);
}

Pattern either(const Pattern& left, const Pattern& right) {
  return Pattern::all() - ((Pattern::all() - left) & (Pattern::all() - right));
}

std::optional<std::uint64_t> smaller(const std::optional<std::uint64_t>& left,
                                     const std::optional<std::uint64_t>& right) {
  if (!left || !right) return left ? left : right;
  return std::min(*left, *right);
}

std::uint64_t num_characters(const std::string& text) {
  return static_cast<std::uint64_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

// The text of a value without parts.
std::optional<std::string> text_of(const Json& value) {
  return value.is_structured() ? std::nullopt : std::optional<std::string>(value.dump());
}

}  // namespace

std::string one_line(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string out(1, value.is_object() ? '{' : '[');
  for (const auto& [name, part] : value.items()) {
    if (out.size() > 1) out += ", ";
    if (value.is_object()) out += Json(name).dump() + ": ";
    out += one_line(part);
  }
  return out + (value.is_object() ? '}' : ']');
}

const SchemaObjects::Property* SchemaObjects::find(const std::string& name) const {
  const auto found = std::find_if(properties.begin(), properties.end(),
                                  [&](const Property& property) { return property.name == name; });
  return found == properties.end() ? nullptr : &*found;
}

SchemaNodes::SchemaNodes(const Json& document, bool is_strict, GrammarSource source,
                         const std::vector<std::string>& pointers)
    : document_(document),
      is_strict_(is_strict),
      max_schemas_(source == GrammarSource::client ? max_schemas : max_our_schemas) {
  std::vector<int> kinds = {
      add_atom({SchemaValues{{nullptr, true, false}}, ""}), add_atom({NumberRange(), ""}),
      add_atom({SchemaStrings(), ""}), add_atom({SchemaArrays(), ""}),
      add_atom({SchemaObjects{{}, {SchemaObjects::Source()}, {}, 0, std::nullopt, "", "", ""}, ""})};
  any_ = add_node(Kind::atoms, std::move(kinds), "");
  for (const std::string& pointer : pointers)
    roots_.push_back(child(document.at(Json::json_pointer(pointer)), pointer, 0));
  while (!unread_.empty()) {
    const auto [node, schema] = unread_.back();
    unread_.pop_back();
    read(node, *schema, std::string(nodes_[idx(node)].place), 0);
  }
  // Beside {}, a schema without "type" means all kinds, also those that it does not speak of.
  const int every_kind = add_node(Kind::atoms, std::vector<int>(nodes_[idx(any_)].parts), "");
  for (const Exclusive& one : exclusive_) {
    for (std::size_t i = 0; i < one.nodes.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        std::vector<int> pair = {one.nodes[j], one.nodes[i]};
        if (all_of(pair, one.place) == all_of({pair[0]}, "") || all_of(pair, one.place) == all_of({pair[1]}, ""))
          pair.push_back(every_kind);
        if (!has_value(all_of(std::move(pair), one.place))) continue;
        unsupported(one.place, " where a value may satisfy more than one of its schemas");
        i = j = one.nodes.size();
      }
    }
  }
  for (const int root : roots_) {
    if (has_value(root)) continue;
    if (leaves(root).empty() || num_loops_ > 0) fail(place(root), "refers to itself");
    fail_without_value(root);
  }
}

void SchemaNodes::fail(const std::string& place, const std::string& problem) {
  throw ArgumentError("json_schema", "cannot be used: " + (place.empty() ? "the schema" : place) + " " + problem);
}

void SchemaNodes::unsupported(const std::string& place, const std::string& where) {
  if (is_strict_) fail(place, "is not supported" + where + "; leave it out, or ask for a schema that is not strict");
  if (std::find(ignored_.begin(), ignored_.end(), place) == ignored_.end()) ignored_.push_back(place);
}

// ---- Reading ----

int SchemaNodes::at(const std::string& place, const Json& schema) {
  const auto [entry, is_new] = by_place_.try_emplace(place, 0);
  if (!is_new) return entry->second;
  entry->second = add_node(Kind::unfinished, {}, place);
  unread_.emplace_back(entry->second, &schema);
  return entry->second;
}

int SchemaNodes::child(const Json& schema, const std::string& place, int depth) {
  const int node = at(place, schema);
  const auto unread = std::find(unread_.begin(), unread_.end(), std::pair<int, const Json*>(node, &schema));
  if (unread == unread_.end()) return node;
  unread_.erase(unread);
  read(node, schema, place, depth);
  return node;
}

int SchemaNodes::reference(const Json& value, const std::string& place) {
  const std::string reference = value.is_string() ? value.get<std::string>() : "";
  if (reference != "#" && reference.compare(0, 2, "#/") != 0)
    fail(place, "must be \"#\" or begin with \"#/\": references are local");
  std::string pointer;
  for (std::size_t i = 1; i < reference.size(); ++i) {
    const bool is_escape = reference[i] == '%' && i + 2 < reference.size() &&
                           std::isxdigit(static_cast<unsigned char>(reference[i + 1])) != 0 &&
                           std::isxdigit(static_cast<unsigned char>(reference[i + 2])) != 0;
    pointer += is_escape ? static_cast<char>(std::stoi(reference.substr(i + 1, 2), nullptr, 16)) : reference[i];
    if (is_escape) i += 2;
  }
  try {
    const Json::json_pointer parsed(pointer);
    return at(parsed.to_string(), document_.at(parsed));
  } catch (const Json::exception&) {
    fail(place, "points nowhere: " + reference);
  }
}

void SchemaNodes::read(int node, const Json& schema, const std::string& place, int depth) {
  if (depth > max_constraint_depth)
    fail(place, "is nested more than " + std::to_string(max_constraint_depth) + " levels deep");
  if (++num_schemas_ > max_schemas_) fail(place, "exceeds the limit of " + std::to_string(max_schemas_) + " schemas");
  const auto become = [&](Kind kind, std::vector<int> parts) {
    nodes_[idx(node)].kind = kind;
    nodes_[idx(node)].parts = std::move(parts);
  };
  if (schema == true) return become(Kind::any_of, {any_});
  if (schema == false) return become(Kind::atoms, {});
  if (!schema.is_object()) fail(place, "is not a schema: it must be an object or true");
  for (const auto& [name, value] : schema.items()) {
    if (!is_annotation(name) && !is_enforced(name) && !excludes_nothing(schema, name, value))
      unsupported(place + escaped(name), "");
  }
  std::vector<int> parts;
  read_types(schema, place, depth, parts);
  if (schema.contains("$ref")) parts.push_back(reference(schema.at("$ref"), place + "/$ref"));
  if (schema.contains("const")) parts.push_back(values_node({schema.at("const")}, place + "/const"));
  for (const char* name : {"enum", "allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(name)) continue;
    const Json& list = schema.at(name);
    const std::string at = place + "/" + name;
    if (!list.is_array() || list.empty()) fail(at, "must be an array that is not empty");
    if (name == std::string("enum")) {
      parts.push_back(values_node({list.begin(), list.end()}, at));
      continue;
    }
    std::vector<int> schemas;
    for (std::size_t i = 0; i < list.size(); ++i)
      schemas.push_back(child(list[i], at + "/" + std::to_string(i), depth + 1));
    if (name == std::string("allOf")) parts.insert(parts.end(), schemas.begin(), schemas.end());
    else parts.push_back(add_node(Kind::any_of, schemas, at));
    if (name != std::string("oneOf")) continue;
    if (schemas.size() <= max_exclusive) exclusive_.push_back({std::move(schemas), at});
    else unsupported(at, " with so many schemas");
  }
  if (parts.empty()) parts = {any_};
  const Kind kind = parts.size() == 1 ? Kind::any_of : Kind::all_of;
  const bool is_nullable = schema.contains("nullable") && schema.at("nullable") == true;
  if (schema.contains("nullable") && !schema.at("nullable").is_boolean())
    fail(place + "/nullable", "must be true or false");
  if (!is_nullable) return become(kind, std::move(parts));
  const int others = add_node(kind, std::move(parts), place);
  become(Kind::any_of, {others, values_node({nullptr}, place + "/nullable")});
}

void SchemaNodes::read_types(const Json& schema, const std::string& place, int depth, std::vector<int>& parts) {
  std::vector<std::string> types;
  unsigned implied = 0;
  if (schema.contains("type")) {
    const Json& type = schema.at("type");
    const Json listed = type.is_array() ? type : Json::array({type});
    if (listed.empty()) fail(place + "/type", "is empty");
    for (const Json& one : listed) {
      static const Names known = {"null", "boolean", "integer", "number", "string", "array", "object"};
      if (!one.is_string() || known.count(one.get<std::string>()) == 0)
        fail(place + "/type", "is " + one.dump() + ", which is not a type");
      types.push_back(one.get<std::string>());
    }
  } else {
    for (unsigned kind = 0; kind < std::size(keywords_of_kinds); ++kind) {
      for (const std::string& name : keywords_of_kinds[kind]) implied |= schema.contains(name) ? 1u << kind : 0u;
    }
    if (implied == 0) return;
    types = {"null", "boolean", "number", "string", "array", "object"};
  }
  const auto has = [&](const char* type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<int> atoms;
  std::vector<Json> values;
  for (const Json& value : {Json(nullptr), Json(true), Json(false)}) {
    const bool is_wanted =
        std::any_of(types.begin(), types.end(), [&](const std::string& type) { return is_of_type(value, type); });
    if (is_wanted) values.push_back(value);
  }
  for (const std::string& type : types) {
    if (type == "integer" && has("number")) continue;
    if (type == "integer" || type == "number") atoms.push_back(add_atom(numbers(schema, place, type == "integer")));
    else if (type == "string") atoms.push_back(add_atom(strings(schema, place)));
    else if (type == "array") atoms.push_back(add_atom(arrays(schema, place, depth)));
    else if (type == "object") atoms.push_back(add_atom(objects(schema, place, depth)));
    else if (!values.empty()) atoms.push_back(add_atom({SchemaValues{std::exchange(values, {})}, place}));
  }
  parts.push_back(add_node(Kind::atoms, std::move(atoms), place));
  nodes_[idx(parts.back())].implied = implied;
}

SchemaAtom SchemaNodes::numbers(const Json& schema, const std::string& place, bool is_integer) {
  NumberRange range;
  range.is_integer = is_integer;
  for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    if (!schema.contains(name)) continue;
    if (!schema.at(name).is_number()) fail(place + "/" + name, "must be a number");
    const NumberRange::Bound bound = {schema.at(name), std::string(name).compare(0, 9, "exclusive") == 0};
    NumberRange other;
    const bool is_least = std::string(name).find("inimum") != std::string::npos;
    const Magnitude magnitude = magnitude_of(bound.value);
    const bool is_far = magnitude == Magnitude::large &&
                        (compare_numbers(bound.value, 0) < 0) == is_least;  // every number is within it
    if (is_far) continue;
    if (magnitude != Magnitude::usual)
      fail(place + "/" + name, "has more than " + std::to_string(max_number_digits) + " digits");
    (is_least ? other.least : other.most) = bound;
    range = range & other;
  }
  if (!schema.contains("multipleOf")) return {range, place};
  const Json& factor = schema.at("multipleOf");
  if (!factor.is_number() || compare_numbers(factor, 0) <= 0) fail(place + "/multipleOf", "must be a number above 0");
  const double number = factor.get<double>();
  if (is_integer && number <= 1 && 1 / number == std::round(1 / number)) return {range, place};
  std::optional<std::uint64_t> divisor = whole_number(factor);
  NumberRange multiples = range;
  if (divisor) {
    multiples.is_integer = true;
    multiples.divisors.push_back(*divisor);
    while (*divisor % 10 == 0) *divisor /= 10;
    if (*divisor > max_divisor && !few_integers(multiples, max_values)) divisor.reset();
  }
  if (!divisor) unsupported(place + "/multipleOf", " with this value");
  return {divisor ? multiples : range, place};
}

std::optional<Pattern> SchemaNodes::read_pattern(const std::string& pattern, Pattern::Match match,
                                                 const std::string& place) {
  const char* const rewritten = rewritten_pattern(pattern);
  try {
    return Pattern(rewritten != nullptr ? rewritten : pattern, match);
  } catch (const PatternError& error) {
    if (!error.is_valid()) fail(place, std::string("is not a regular expression: ") + error.what());
    unsupported(place, std::string(" here: ") + error.what());
    return std::nullopt;
  }
}

SchemaAtom SchemaNodes::strings(const Json& schema, const std::string& place) {
  SchemaStrings strings;
  strings.least = small_count(schema, "minLength", place, 0);
  const std::uint64_t most = count(schema, "maxLength", place, unlimited);
  if (most != unlimited) strings.most = most;
  strings.most_place = place + "/maxLength";
  if (schema.contains("pattern")) {
    if (!schema.at("pattern").is_string()) fail(place + "/pattern", "must be a string");
    strings.pattern = read_pattern(schema.at("pattern"), Pattern::Match::search, place + "/pattern");
  }
  if (!schema.contains("format")) return {strings, place};
  if (!schema.at("format").is_string()) fail(place + "/format", "must be a string");
  const std::string format = schema.at("format");
  const std::string* const texts = pattern_of_format(format);
  if (texts == nullptr) return {strings, place};
  strings.is_web_address = format == "uri" && most != unlimited && most >= long_address && !strings.pattern;
  const Pattern pattern(strings.is_web_address ? web_address : *texts, Pattern::Match::whole);
  strings.pattern = strings.pattern ? *strings.pattern & pattern : pattern;
  return {strings, place};
}

SchemaAtom SchemaNodes::arrays(const Json& schema, const std::string& place, int depth) {
  SchemaArrays arrays;
  const bool is_older = !schema.contains("prefixItems") && schema.contains("items") && schema.at("items").is_array();
  const std::string first = is_older ? "items" : "prefixItems", rest = is_older ? "additionalItems" : "items";
  if (schema.contains(first)) {
    const Json& list = schema.at(first);
    if (!list.is_array()) fail(place + "/" + first, "must be an array");
    for (std::size_t i = 0; i < list.size(); ++i)
      arrays.first.push_back(child(list[i], place + "/" + first + "/" + std::to_string(i), depth + 1));
  }
  if (schema.contains(rest)) arrays.items = child(schema.at(rest), place + "/" + rest, depth + 1);
  arrays.least = small_count(schema, "minItems", place, 0);
  const std::uint64_t most = small_count(schema, "maxItems", place, unlimited);
  if (most != unlimited) arrays.most = most;
  if (!schema.contains("uniqueItems")) return {arrays, place};
  if (!schema.at("uniqueItems").is_boolean()) fail(place + "/uniqueItems", "must be true or false");
  if (schema.at("uniqueItems") == true && most > 1) arrays.unique_places = {place + "/uniqueItems"};
  return {arrays, place};
}

SchemaAtom SchemaNodes::objects(const Json& schema, const std::string& place, int depth) {
  SchemaObjects objects;
  SchemaObjects::Source source;
  std::set<std::string> listed;
  for (const char* name : {"properties", "patternProperties"}) {
    if (!schema.contains(name)) continue;
    const std::string at = place + "/" + name;
    if (!schema.at(name).is_object()) fail(at, "must be an object");
    const bool is_pattern = name != std::string("properties");
    if (is_pattern && schema.at(name).size() > max_patterns) {
      unsupported(at, " with more than " + std::to_string(max_patterns) + " patterns");
      continue;
    }
    for (const auto& [key, value] : schema.at(name).items()) {
      const int node = child(value, at + escaped(key), depth + 1);
      if (!is_pattern) {
        if (listed.insert(key).second) objects.properties.push_back({key, node, false});
        continue;
      }
      const auto pattern = read_pattern(key, Pattern::Match::search, at + escaped(key));
      if (pattern) source.patterns.emplace_back(*pattern, node);
    }
  }
  if (schema.contains("additionalProperties"))
    source.others = child(schema.at("additionalProperties"), place + "/additionalProperties", depth + 1);
  for (SchemaObjects::Property& property : objects.properties) {
    std::vector<int> values = {property.value};
    for (const auto& [pattern, node] : source.patterns) {
      if (pattern.matches(property.name)) values.push_back(node);
    }
    property.value = all_of(std::move(values), place);
  }
  objects.sources = {source};
  if (schema.contains("required")) {
    const Json& required = schema.at("required");
    if (!required.is_array()) fail(place + "/required", "must be an array of names");
    std::map<std::string, std::size_t> numbers;
    for (const SchemaObjects::Property& property : objects.properties) numbers.emplace(property.name, numbers.size());
    for (const Json& name : required) {
      if (!name.is_string()) fail(place + "/required", "must be an array of names");
      const auto [entry, is_new] = numbers.try_emplace(name.get<std::string>(), objects.properties.size());
      if (is_new) {
        objects.properties.push_back({name, all_of(values_of(objects.sources, name), place), true});
      }
      objects.properties[entry->second].is_required = true;
    }
  }
  if (schema.contains("propertyNames"))
    objects.names.push_back(child(schema.at("propertyNames"), place + "/propertyNames", depth + 1));
  objects.least = small_count(schema, "minProperties", place, 0);
  const std::uint64_t most = small_count(schema, "maxProperties", place, unlimited);
  if (most != unlimited) objects.most = most;
  objects.place = place;
  if (schema.contains("minProperties")) objects.least_place = place + "/minProperties";
  if (schema.contains("maxProperties")) objects.most_place = place + "/maxProperties";
  return {objects, place};
}

// ---- Making ----

int SchemaNodes::add_node(Kind kind, std::vector<int> parts, const std::string& place) {
  if (nodes_.size() >= max_nodes) fail(place, "has too many combinations");
  Node node;
  node.kind = kind;
  node.parts = std::move(parts);
  node.place = place;
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int SchemaNodes::add_atom(SchemaAtom atom) {
  if (atoms_.size() >= max_nodes) fail(atom.place, "has too many combinations");
  atom.is_empty = is_empty(atom);
  atoms_.push_back(std::move(atom));
  const int number = static_cast<int>(atoms_.size()) - 1;
  sources_.push_back({number});
  return number;
}

int SchemaNodes::values_node(std::vector<Json> values, const std::string& place) {
  for (Json& value : values) value = with_plain_numbers(std::move(value));
  return add_node(Kind::atoms, {add_atom({SchemaValues{std::move(values)}, place})}, place);
}

int SchemaNodes::all_of(std::vector<int> nodes, const std::string& place) {
  std::set<int> parts;
  while (!nodes.empty()) {
    int node = nodes.back();
    nodes.pop_back();
    std::set<int> seen;
    while (nodes_[idx(node)].kind == Kind::any_of && nodes_[idx(node)].parts.size() == 1 && seen.insert(node).second)
      node = nodes_[idx(node)].parts.front();
    const Node& one = nodes_[idx(node)];
    const bool is_made = one.kind == Kind::all_of && parts.count(node) == 0;
    if (is_made && intersections_.count(one.parts) != 0) nodes.insert(nodes.end(), one.parts.begin(), one.parts.end());
    else if (node != any_) parts.insert(node);
  }
  if (parts.empty()) return any_;
  if (parts.size() == 1) return *parts.begin();
  const auto [entry, is_new] = intersections_.try_emplace(std::vector<int>(parts.begin(), parts.end()), 0);
  if (is_new) entry->second = add_node(Kind::all_of, entry->first, place);
  return entry->second;
}

// The same atoms, in whatever order they come together, are one atom.
std::optional<int> SchemaNodes::both(int left, int right) {
  std::set<int> key = sources_[idx(left)];
  key.insert(sources_[idx(right)].begin(), sources_[idx(right)].end());
  if (key.size() == sources_[idx(left)].size()) return left;
  if (key.size() == sources_[idx(right)].size()) return right;
  const auto found = both_.find(key);
  if (found != both_.end()) return found->second;
  const SchemaAtom &a = atom(left), &b = atom(right);
  SchemaAtom made{{}, a.place};
  if (a.as<SchemaValues>() != nullptr || b.as<SchemaValues>() != nullptr) {
    const int listed = a.as<SchemaValues>() != nullptr ? left : right, other = listed == left ? right : left;
    SchemaValues values;
    for (const Json& value : atom(listed).as<SchemaValues>()->values) {
      if (atom_accepts(other, value)) values.values.push_back(value);
    }
    made = {std::move(values), atom(listed).place};
  } else if (a.form.index() != b.form.index()) {
    return both_[key] = std::nullopt;
  } else if (a.as<NumberRange>() != nullptr) {
    made.form = *a.as<NumberRange>() & *b.as<NumberRange>();
  } else if (const auto* strings = a.as<SchemaStrings>()) {
    SchemaStrings all = *b.as<SchemaStrings>();
    if (strings->pattern) {
      all.is_web_address = strings->is_web_address && !all.pattern;
      all.pattern = all.pattern ? *all.pattern & *strings->pattern : *strings->pattern;
    }
    all.least = std::max(all.least, strings->least);
    if (strings->most && (!all.most || *strings->most < *all.most)) all.most_place = strings->most_place;
    all.most = smaller(all.most, strings->most);
    made.form = std::move(all);
  } else if (const auto* arrays = a.as<SchemaArrays>()) {
    made = both(*arrays, *b.as<SchemaArrays>(), a.place);
  } else {
    made = both(*a.as<SchemaObjects>(), *b.as<SchemaObjects>(), a.place);
  }
  const int added = add_atom(std::move(made));
  sources_[idx(added)] = key;
  return both_[key] = atom(added).is_empty ? std::nullopt : std::optional<int>(added);
}

SchemaAtom SchemaNodes::both(const SchemaArrays& left, const SchemaArrays& right, const std::string& place) {
  SchemaArrays arrays;
  const auto item = [&](const SchemaArrays& one, std::size_t i) {
    return i < one.first.size() ? one.first[i] : one.items.value_or(any_);
  };
  for (std::size_t i = 0; i < std::max(left.first.size(), right.first.size()); ++i)
    arrays.first.push_back(all_of({item(left, i), item(right, i)}, place));
  if (left.items && right.items) arrays.items = all_of({*left.items, *right.items}, place);
  else arrays.items = left.items ? left.items : right.items;
  arrays.least = std::max(left.least, right.least);
  arrays.most = smaller(left.most, right.most);
  arrays.unique_places = left.unique_places;
  arrays.unique_places.insert(arrays.unique_places.end(), right.unique_places.begin(), right.unique_places.end());
  return {std::move(arrays), place};
}

SchemaAtom SchemaNodes::both(const SchemaObjects& left, const SchemaObjects& right, const std::string& place) {
  SchemaObjects objects;
  for (const auto& [one, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    for (const SchemaObjects::Property& property : one->properties) {
      const SchemaObjects::Property* const same = other->find(property.name);
      if (same != nullptr && one == &right) continue;
      std::vector<int> values = {property.value};
      if (same != nullptr) values.push_back(same->value);
      else
        for (const int value : values_of(other->sources, property.name)) values.push_back(value);
      objects.properties.push_back(
          {property.name, all_of(values, place), property.is_required || (same != nullptr && same->is_required)});
    }
    objects.sources.insert(objects.sources.end(), one->sources.begin(), one->sources.end());
    objects.names.insert(objects.names.end(), one->names.begin(), one->names.end());
  }
  objects.least = std::max(left.least, right.least);
  objects.most = smaller(left.most, right.most);
  const auto tighter = [](const std::string& one, const std::string& other, bool is_other) {
    return one.empty() || (is_other && !other.empty()) ? other : one;
  };
  objects.least_place = tighter(left.least_place, right.least_place, right.least > left.least);
  objects.most_place = tighter(left.most_place, right.most_place, objects.most != left.most);
  objects.place = left.place;
  return {std::move(objects), place};
}

// ---- Questions ----

// The nodes that a union is made of: of atoms, or intersections.
std::vector<int> SchemaNodes::leaves(int node) const {
  std::vector<int> found, open = {node};
  std::set<int> seen;
  while (!open.empty()) {
    const int one = open.back();
    open.pop_back();
    if (!seen.insert(one).second) continue;
    const Node& at = nodes_[idx(one)];
    if (at.kind == Kind::any_of) open.insert(open.end(), at.parts.rbegin(), at.parts.rend());
    else found.push_back(one);
  }
  return found;
}

// The atoms of nodes that refer to each other are the least sets that agree: rounds begin with none and add until a
// round adds none. A node's atoms are looked for once in a round, so that the work does not multiply.
std::vector<int> SchemaNodes::all_atoms(int number) {
  Node& node = nodes_[idx(number)];
  if (node.is_settled) return node.found;
  if (node.round == round_ && num_in_work_ > 0) {
    num_loops_ += node.is_in_work ? 1 : 0;
    return node.found;
  }
  if (num_in_work_ > 0) return look_for_atoms(number);
  const int num_loops_before = num_loops_;
  do {
    ++round_;
    has_grown_ = false;
    in_round_.clear();
    look_for_atoms(number);
  } while (has_grown_ && num_loops_ > num_loops_before);
  for (const int one : in_round_) nodes_[idx(one)].is_settled = true;
  return node.found;
}

std::vector<int> SchemaNodes::look_for_atoms(int number) {
  Node& node = nodes_[idx(number)];
  node.round = round_;
  in_round_.push_back(number);
  node.is_in_work = true;
  ++num_in_work_;
  std::vector<int> atoms;
  for (const int leaf : leaves(number)) {
    const Node& one = nodes_[idx(leaf)];
    std::vector<int> some;
    if (one.kind == Kind::all_of) some = leaf == number ? intersection(one) : all_atoms(leaf);
    for (const int part : one.kind == Kind::atoms ? one.parts : std::vector<int>()) {
      if (one.implied == 0 || (one.implied >> atom(part).form.index() & 1) != 0) some.push_back(part);
    }
    for (const int part : some) {
      if (std::find(atoms.begin(), atoms.end(), part) == atoms.end()) atoms.push_back(part);
    }
  }
  node.is_in_work = false;
  --num_in_work_;
  has_grown_ = has_grown_ || atoms.size() > node.found.size();
  node.found = atoms;
  return atoms;
}

// Schemas without "type" speak of some kinds of values and allow all others. If each part is such a schema, only the
// kinds that one of them speaks of are meant.
std::vector<int> SchemaNodes::intersection(const Node& node) {
  std::vector<int> atoms;
  unsigned implied = 0;
  bool is_implied = true, is_first = true;
  for (const int part : std::vector<int>(node.parts)) {
    std::vector<int> some;
    for (const int leaf : leaves(part)) {
      const Node& one = nodes_[idx(leaf)];
      is_implied = is_implied && one.kind == Kind::atoms && one.implied != 0;
      implied |= one.implied;
      const std::vector<int> found = one.kind == Kind::atoms ? one.parts : all_atoms(leaf);
      some.insert(some.end(), found.begin(), found.end());
    }
    std::vector<int> all;
    for (const int left : is_first ? std::vector<int>() : atoms) {
      for (const int right : some) {
        const std::optional<int> made = both(left, right);
        if (made && std::find(all.begin(), all.end(), *made) == all.end()) all.push_back(*made);
      }
    }
    atoms = is_first ? std::move(some) : std::move(all);
    is_first = false;
  }
  if (!is_implied) return atoms;
  std::vector<int> meant;
  std::copy_if(atoms.begin(), atoms.end(), std::back_inserter(meant),
               [&](int one) { return (implied >> atom(one).form.index() & 1) != 0; });
  return meant;
}

std::vector<int> SchemaNodes::atoms(int node) {
  settle(node);
  std::vector<int> found;
  for (const int one : all_atoms(node)) {
    if (may_have_value(atom(one))) found.push_back(one);
  }
  return found;
}

bool SchemaNodes::has_value(int node) {
  settle(node);
  return *nodes_[idx(node)].has_value;
}

std::vector<int> SchemaNodes::children(const SchemaAtom& atom) const {
  std::vector<int> found;
  if (const auto* arrays = atom.as<SchemaArrays>()) {
    found = arrays->first;
    if (arrays->items) found.push_back(*arrays->items);
  } else if (const auto* objects = atom.as<SchemaObjects>()) {
    for (const SchemaObjects::Property& property : objects->properties) found.push_back(property.value);
    found.insert(found.end(), objects->names.begin(), objects->names.end());
    for (const SchemaObjects::Source& source : objects->sources) {
      for (const auto& [pattern, node] : source.patterns) found.push_back(node);
      if (source.others) found.push_back(*source.others);
    }
  }
  return found;
}

// Finds has_value of a node and of all that it refers to: the least sets that satisfy the equations, because a value is
// finite.
void SchemaNodes::settle(int node) {
  if (nodes_[idx(node)].has_value) return;
  std::vector<int> reached = {node};
  std::set<int> seen = {node};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int part : all_atoms(reached[i])) {
      for (const int next : children(atom(part))) {
        if (!nodes_[idx(next)].has_value && seen.insert(next).second) reached.push_back(next);
      }
    }
  }
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (const int one : reached) {
      if (nodes_[idx(one)].has_value) continue;
      const std::vector<int> parts = all_atoms(one);
      if (std::none_of(parts.begin(), parts.end(), [&](int part) { return may_have_value(atom(part)); })) continue;
      nodes_[idx(one)].has_value = true;
      is_changed = true;
    }
  }
  for (const int one : reached) {
    if (!nodes_[idx(one)].has_value) nodes_[idx(one)].has_value = false;
  }
}

bool SchemaNodes::is_empty(const SchemaAtom& atom) {
  if (const auto* values = atom.as<SchemaValues>()) return values->values.empty();
  if (const auto* range = atom.as<NumberRange>()) {
    if (!range->least || !range->most) return false;
    const Json &least = range->least->value, &most = range->most->value;
    const int order = compare_numbers(least, most);
    if (order > 0 || (order == 0 && !range->contains(least))) return true;
    const auto few = few_integers(*range, 1);
    return few && few->empty();
  }
  if (const auto* strings = atom.as<SchemaStrings>()) {
    if (strings->most && *strings->most < strings->least) return true;
    if (!strings->pattern) return false;
    const std::optional<std::uint64_t> most =
        strings->most && *strings->most <= std::uint64_t{max_counted_places} ? strings->most : std::nullopt;
    if (strings->least == 0 && !most) return strings->pattern->is_empty();
    return (*strings->pattern & Pattern::of_length(strings->least, most)).is_empty();
  }
  if (const auto* arrays = atom.as<SchemaArrays>()) return arrays->most && *arrays->most < arrays->least;
  const auto* objects = atom.as<SchemaObjects>();
  return objects->most && *objects->most < objects->least;
}

bool SchemaNodes::may_have_value(const SchemaAtom& atom) {
  if (atom.is_empty) return false;
  const auto has = [&](int node) { return nodes_[idx(node)].has_value.value_or(false); };
  if (const auto* arrays = atom.as<SchemaArrays>()) {
    const std::size_t num_first = std::min(arrays->first.size(), static_cast<std::size_t>(arrays->least));
    if (!std::all_of(arrays->first.begin(), arrays->first.begin() + static_cast<std::ptrdiff_t>(num_first), has))
      return false;
    if (arrays->least <= arrays->first.size()) return true;
    const auto few = !arrays->unique_places.empty() && arrays->items ? few_values(*arrays->items) : std::nullopt;
    if (few && few->size() + arrays->first.size() < arrays->least) return false;
    return arrays->items ? has(*arrays->items) : arrays->first.empty();
  }
  const auto* objects = atom.as<SchemaObjects>();
  if (objects == nullptr) return true;
  std::uint64_t num_required = 0, num_listed = 0;
  for (const SchemaObjects::Property& property : objects->properties) {
    const bool is_possible = has(property.value) && accepts_names(*objects, property.name);
    if (property.is_required && !is_possible) return false;
    num_required += property.is_required ? 1 : 0;
    num_listed += is_possible ? 1 : 0;
  }
  if (objects->most && num_required > *objects->most) return false;
  if (num_listed >= objects->least) return true;
  if (const auto few = few_names_of(*objects)) {  // others must fill up
    for (const std::string& name : *few) {
      const std::vector<int> values = values_of(objects->sources, name);
      const bool is_open = !values.empty() || !lists_properties(*objects);
      const bool is_new = objects->find(name) == nullptr;
      num_listed += is_new && is_open && std::all_of(values.begin(), values.end(), has) ? 1 : 0;
    }
    return num_listed >= objects->least;
  }
  bool is_open = objects->properties.empty(), has_pattern = false;
  for (const SchemaObjects::Source& source : objects->sources) {
    if (source.others) is_open = has(*source.others);
    for (const auto& [pattern, node] : source.patterns) has_pattern = has_pattern || has(node);
  }
  return is_open || has_pattern;
}

// Then there are no others, unless the schema says so.
bool SchemaNodes::lists_properties(const SchemaObjects& objects) {
  return !objects.properties.empty() ||
         std::any_of(objects.sources.begin(), objects.sources.end(),
                     [](const SchemaObjects::Source& source) { return !source.patterns.empty(); });
}

std::vector<int> SchemaNodes::values_of(const std::vector<SchemaObjects::Source>& sources, const std::string& name) {
  std::vector<int> values;
  for (const SchemaObjects::Source& source : sources) {
    bool is_matched = false;
    for (const auto& [pattern, node] : source.patterns) {
      if (!pattern.matches(name)) continue;
      values.push_back(node);
      is_matched = true;
    }
    if (!is_matched && source.others) values.push_back(*source.others);
  }
  return values;
}

bool SchemaNodes::accepts_names(const SchemaObjects& objects, const std::string& name) {
  return std::all_of(objects.names.begin(), objects.names.end(), [&](int node) { return accepts(node, name); });
}

std::vector<SchemaObjects::Property> SchemaNodes::members(const SchemaObjects& objects) {
  std::vector<SchemaObjects::Property> found;
  for (const SchemaObjects::Property& property : objects.properties) {
    if (has_value(property.value) && accepts_names(objects, property.name)) found.push_back(property);
  }
  return found;
}

std::optional<Pattern> SchemaNodes::names_of(const SchemaObjects& objects) {
  std::optional<Pattern> names;
  for (const int node : objects.names) {
    std::optional<Pattern> some;
    bool is_any = false;
    for (const int number : all_atoms(node)) {
      const SchemaAtom& one = atom(number);
      std::optional<Pattern> texts;
      if (const auto* values = one.as<SchemaValues>()) {
        std::vector<std::string> listed;
        for (const Json& value : values->values) {
          if (value.is_string()) listed.push_back(value);
        }
        if (!listed.empty()) texts = one_of_texts(listed);
      } else if (const auto* strings = one.as<SchemaStrings>()) {
        const bool is_counted = strings->least > 0 || strings->most;
        is_any = is_any || (!strings->pattern && !is_counted);
        texts = strings->pattern ? *strings->pattern : Pattern::all();
        const auto limit = [&](std::uint64_t least, std::optional<std::uint64_t> most, const std::string& place) {
          try {
            if (least > 0 || most) texts = *texts & Pattern::of_length(least, most);
          } catch (const PatternError&) {
            unsupported(place, " for names");
          }
        };
        limit(0, strings->most, strings->most_place);
        limit(strings->least, std::nullopt, one.place + "/minLength");
      }
      if (texts) some = some ? either(*some, *texts) : *texts;
    }
    if (is_any) continue;
    if (!some) some = Pattern::all() - Pattern::all();
    names = names ? *names & *some : *some;
  }
  return names;
}

std::optional<std::vector<std::string>> SchemaNodes::few_names_of(const SchemaObjects& objects) {
  for (const int node : objects.names) {
    std::vector<std::string> listed;
    bool is_listed = true;
    for (const int number : all_atoms(node)) {
      const auto* values = atom(number).as<SchemaValues>();
      is_listed = is_listed && (values != nullptr || atom(number).as<SchemaStrings>() == nullptr);
      for (const Json& value : values != nullptr ? values->values : std::vector<Json>()) {
        if (value.is_string() && accepts_names(objects, value)) listed.push_back(value);
      }
    }
    if (is_listed) return listed;
  }
  return std::nullopt;
}

std::vector<SchemaNodes::Others> SchemaNodes::others(const SchemaObjects& objects) {
  std::optional<Pattern> names = names_of(objects);
  std::vector<std::string> listed;
  for (const SchemaObjects::Property& property : objects.properties) listed.push_back(property.name);
  if (!listed.empty()) names = (names ? *names : Pattern::all()) - one_of_texts(listed);
  const std::optional<std::vector<std::string>> few = few_names_of(objects);

  // Each case is a set of the patterns that a name matches.
  std::vector<const std::pair<Pattern, int>*> patterns;
  for (const SchemaObjects::Source& source : objects.sources) {
    for (const auto& pattern : source.patterns) patterns.push_back(&pattern);
  }
  const bool is_closed = lists_properties(objects);
  const bool is_stated = std::any_of(objects.sources.begin(), objects.sources.end(),
                                     [](const SchemaObjects::Source& source) { return source.others.has_value(); });
  if (patterns.size() > max_patterns) fail(objects.place, "has too many patterns of properties");
  std::vector<Others> found;
  for (unsigned set = 0; set < 1u << patterns.size(); ++set) {
    if (set == 0 && is_closed && !is_stated) continue;
    std::optional<Pattern> matching = names;
    std::vector<int> values;
    unsigned bit = 0;
    for (const SchemaObjects::Source& source : objects.sources) {
      bool is_matched = false;
      for (const auto& [pattern, node] : source.patterns) {
        const bool is_in = (set >> bit++ & 1) != 0;
        const Pattern all = matching ? *matching : Pattern::all();
        matching = is_in ? all & pattern : all - pattern;
        if (is_in) values.push_back(node);
        is_matched = is_matched || is_in;
      }
      if (!is_matched && source.others) values.push_back(*source.others);
    }
    if (matching && matching->is_empty()) continue;
    const int value = all_of(std::move(values), objects.place);
    if (!has_value(value)) continue;
    Others one{matching, patterns.empty() && objects.names.empty(), std::nullopt, value};
    if (few) {
      one.few_names.emplace();
      std::copy_if(few->begin(), few->end(), std::back_inserter(*one.few_names),
                   [&](const std::string& name) { return !matching || matching->matches(name); });
    }
    found.push_back(std::move(one));
  }
  return found;
}

bool SchemaNodes::accepts(int node, const Json& value) {
  std::map<int, bool> known;
  return accepts(node, value, known);
}

// By the schema alone: a value of "enum" may also be of a kind that a schema without "type" does not speak of.
bool SchemaNodes::accepts(int number, const Json& value, std::map<int, bool>& known) {
  const auto [entry, is_new] = known.try_emplace(number, false);  // false if it is reached again meanwhile
  if (!is_new) return entry->second;
  const Node& node = nodes_[idx(number)];
  const auto part_accepts = [&](int part) {
    return node.kind == Kind::atoms ? atom_accepts(part, value) : accepts(part, value, known);
  };
  entry->second = node.kind == Kind::all_of ? std::all_of(node.parts.begin(), node.parts.end(), part_accepts)
                                            : std::any_of(node.parts.begin(), node.parts.end(), part_accepts);
  return entry->second;
}

bool SchemaNodes::atom_accepts(int number, const Json& value) {
  const SchemaAtom& one = atom(number);
  if (const auto* values = one.as<SchemaValues>()) {
    return std::any_of(values->values.begin(), values->values.end(),
                       [&](const Json& other) { return are_equal_values(value, other); });
  }
  if (const auto* range = one.as<NumberRange>()) return value.is_number() && range->contains(value);
  if (const auto* strings = one.as<SchemaStrings>()) {
    if (!value.is_string()) return false;
    const std::string& text = value.get_ref<const std::string&>();
    const std::uint64_t length = num_characters(text);
    return length >= strings->least && (!strings->most || length <= *strings->most) &&
           (!strings->pattern || strings->pattern->matches(text));
  }
  if (const auto* arrays = one.as<SchemaArrays>()) {
    if (!value.is_array() || value.size() < arrays->least || (arrays->most && value.size() > *arrays->most))
      return false;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const int item = i < arrays->first.size() ? arrays->first[i] : arrays->items.value_or(any_);
      if (!accepts(item, value[i])) return false;
      for (std::size_t j = 0; j < i && !arrays->unique_places.empty(); ++j) {
        if (are_equal_values(value[i], value[j])) return false;
      }
    }
    return true;
  }
  const auto* objects = one.as<SchemaObjects>();
  if (!value.is_object() || value.size() < objects->least || (objects->most && value.size() > *objects->most))
    return false;
  for (const SchemaObjects::Property& property : objects->properties) {
    if (property.is_required && !value.contains(property.name)) return false;
  }
  for (const auto& [name, part] : value.items()) {
    if (!accepts_names(*objects, name)) return false;
    const SchemaObjects::Property* const property = objects->find(name);
    const std::vector<int> nodes =
        property != nullptr ? std::vector<int>{property->value} : values_of(objects->sources, name);
    for (const int node : nodes) {
      if (!accepts(node, part)) return false;
    }
  }
  return true;
}

std::optional<std::vector<std::string>> SchemaNodes::few_values(int node) {
  std::vector<std::string> texts;
  for (const int number : all_atoms(node)) {
    std::vector<Json> values;
    if (const auto* listed = atom(number).as<SchemaValues>()) {
      values = listed->values;
    } else if (const auto* range = atom(number).as<NumberRange>()) {
      const auto few = few_integers(*range, max_values);
      if (!few) return std::nullopt;
      values.assign(few->begin(), few->end());
    } else {
      return std::nullopt;
    }
    for (const Json& value : values) {
      const auto text = text_of(value);
      if (!text) return std::nullopt;
      if (std::find(texts.begin(), texts.end(), *text) == texts.end()) texts.push_back(*text);
    }
  }
  if (texts.empty() || texts.size() > max_values) return std::nullopt;
  return texts;
}

bool SchemaNodes::is_endless(int node) {
  const std::vector<int> parts = atoms(node);
  if (parts.size() != 1) return false;
  if (const auto* strings = atom(parts[0]).as<SchemaStrings>()) return !strings->pattern && !strings->most;
  const auto* range = atom(parts[0]).as<NumberRange>();
  if (range == nullptr || !range->is_integer || range->most || !range->divisors.empty()) return false;
  return !range->least || compare_numbers(range->least->value, range->least->is_exclusive ? -1 : 0) >= 0;
}

// Names the innermost place that leaves the whole schema without a value.
void SchemaNodes::fail_without_value(int root) {
  std::set<int> seen;
  int at = root;
  while (seen.insert(at).second) {
    const std::vector<int> parts = all_atoms(at);
    if (parts.size() != 1) break;
    if (const auto* arrays = atom(parts[0]).as<SchemaArrays>()) {
      if (arrays->items && !has_value(*arrays->items)) at = *arrays->items;
    } else if (const auto* objects = atom(parts[0]).as<SchemaObjects>()) {
      for (const SchemaObjects::Property& property : objects->properties) {
        if (!property.is_required || (has_value(property.value) && accepts_names(*objects, property.name))) continue;
        if (all_atoms(property.value).empty() || has_value(property.value))
          fail(place(at), "allows no value: it requires " + Json(property.name).dump() + ", which is not allowed");
        at = property.value;
      }
    }
  }
  fail(place(at), "allows no value: its keywords exclude each other");
}

}  // namespace specdec
