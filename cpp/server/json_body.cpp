#include "server/json_body.h"

#include <cmath>
#include <utility>

#include "base/json_limits.h"

namespace specdec::server {

Json parse_body(const std::string& text) {
  const std::string excess = json_excess(text);
  if (!excess.empty()) throw invalid_request("", "the body has " + excess);
  try {
    Json body = Json::parse(text);
    if (!body.is_object()) throw invalid_request("", "the body must be a JSON object");
    return body;
  } catch (const Json::exception& error) {
    const std::string problem = error.what();  // ends with the text that was read, which may be long
    throw invalid_request("", "the body is not JSON in UTF-8: " + problem.substr(0, problem.find("; last read: ")));
  }
}

void check_json_text(const std::string& field, const std::string& text) {
  const std::string excess = json_excess(text);
  if (!excess.empty()) throw invalid_request(field, field + " has " + excess);
}

const Json& body_of(const HttpRequest& http) {
  if (!http.json) http.json = std::make_shared<const Json>(parse_body(http.body));
  return *http.json;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

ApiError wrong_value(const std::string& field, const Json& value, const std::string& requirement) {
  constexpr std::size_t longest = 80;
  std::string shown = value.dump(-1, ' ', true);
  if (shown.size() > longest) shown = shown.substr(0, longest) + "...";
  return invalid_request(field, field + " is " + shown + "; it must be " + requirement);
}

Json whole_number(const Json& value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  if (!(std::abs(number) <= exact) || number != std::trunc(number)) return value;
  if (number >= 0) return static_cast<std::uint64_t>(number);
  return static_cast<std::int64_t>(number);
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) throw wrong_value(path_, object, "an object");
}

const Json* Fields::find(const std::string& name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::required(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) throw invalid_request(path(name), path(name) + " is missing");
  return *value;
}

std::vector<std::string> Fields::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) {
    if (!value.is_null()) names.push_back(name);
  }
  return names;
}

std::string Fields::path(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

bool Fields::flag(const std::string& name, bool fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) throw wrong_value(path(name), *value, "true or false");
  return value->get<bool>();
}

int Fields::whole(const std::string& name, int fallback, int low, int high) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const Json number = whole_number(*value);
  const bool fits =
      number.is_number_integer() && !(number.is_number_unsigned() && number.get<std::uint64_t>() > INT64_MAX);
  if (!fits || number.get<std::int64_t>() < low || number.get<std::int64_t>() > high) {
    throw wrong_value(path(name), *value, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return number.get<int>();
}

std::string Fields::text(const std::string& name, const std::string& fallback) const {
  return find(name) == nullptr ? fallback : required_text(name);
}

std::string Fields::required_text(const std::string& name) const {
  const Json& value = required(name);
  if (!value.is_string()) throw wrong_value(path(name), value, "a string");
  return value.get<std::string>();
}

}  // namespace specdec::server
