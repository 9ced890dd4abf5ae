// Reads the JSON of requests. Every error is an ApiError (400) that names the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "server/api_error.h"
#include "server/http_server.h"

namespace specdec::server {

using Json = nlohmann::ordered_json;

// Parses a request's body, which must be an object in UTF-8 within the limits of base/json_limits.h.
Json parse_body(const std::string& text);
const Json& body_of(const HttpRequest& http);  // parsed once
// Throws if a string of the body that will be parsed as JSON exceeds these limits.
void check_json_text(const std::string& field, const std::string& text);

// JSON as text for a reply. Bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

// 1.0 and 1e3 as the whole numbers that some languages write so; other values as they are.
Json whole_number(const Json& value);

// The error for a value with a wrong type or out of range: "stream is 3; it must be true or false".
ApiError wrong_value(const std::string& field, const Json& value, const std::string& requirement);

// The fields of an object in a request. A field that is null counts as missing.
class Fields {
 public:
  // path: the object's name in errors ("messages[2]"); empty: the body. The object must outlive this.
  explicit Fields(const Json& object, std::string path = "");

  const Json* find(const std::string& name) const;      // null: missing
  const Json& required(const std::string& name) const;  // throws
  const Json& object() const { return *object_; }
  std::vector<std::string> names() const;            // of all fields that are not null
  std::string path(const std::string& name) const;   // "messages[2].role"
  const std::string& path() const { return path_; }  // of the object

  bool flag(const std::string& name, bool fallback) const;
  int whole(const std::string& name, int fallback, int low, int high) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  std::string required_text(const std::string& name) const;

 private:
  const Json* object_;
  std::string path_;
};

}  // namespace specdec::server
