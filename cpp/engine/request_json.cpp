#include "engine/request_json.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;
using option::Value;

// Converts JSON to a Value of an option's type; nullopt for JSON of another type.
class Reader {
 public:
  Reader(const std::string& name, const Json& json) : name_(name), json_(json) {}

  std::optional<Value> operator()(const option::Flag&) const {
    return json_.is_boolean() ? std::optional<Value>(json_.get<bool>()) : std::nullopt;
  }
  std::optional<Value> operator()(const option::Whole&) const { return whole(); }
  std::optional<Value> operator()(const option::Number&) const {
    return json_.is_number() ? std::optional<Value>(json_.get<double>()) : std::nullopt;
  }
  std::optional<Value> operator()(const option::Seed&) const {
    return json_.is_number_unsigned() ? std::optional<Value>(json_.get<std::uint64_t>()) : std::nullopt;
  }
  std::optional<Value> operator()(const option::DraftTokens&) const { return json_.is_string() ? string() : whole(); }
  std::optional<Value> operator()(const option::Layers&) const { return json_.is_string() ? string() : whole(); }
  std::optional<Value> operator()(const option::Choice&) const { return string(); }
  std::optional<Value> operator()(const option::String&) const { return string(); }
  std::optional<Value> operator()(const option::Schema&) const { return json_.is_object() ? json_.dump() : string(); }
  std::optional<Value> operator()(const option::Object&) const { return json_.is_object() ? json_.dump() : string(); }
  std::optional<Value> operator()(const option::Path&) const { return string(); }
  std::optional<Value> operator()(const option::Draft&) const { return string(); }
  std::optional<Value> operator()(const option::Texts&) const { return strings(); }
  std::optional<Value> operator()(const option::Addresses&) const { return strings(); }

  std::optional<Value> operator()(const option::Tokens&) const {
    if (!json_.is_array()) return std::nullopt;
    std::vector<Token> tokens;
    for (const Json& one : json_) {
      const bool fits =
          one.is_number_unsigned() && one.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<Token>::max()};
      if (!fits) return std::nullopt;
      tokens.push_back(one.get<Token>());
    }
    return tokens;
  }

  // {"15043": 1.5, "2": "-inf"}: a string, because JSON has no infinity.
  std::optional<Value> operator()(const option::Biases&) const {
    if (!json_.is_object()) return std::nullopt;
    sampling::LogitBias biases;
    for (const auto& [token, bias] : json_.items()) {
      if (token.empty() || token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos) {
        throw ArgumentError(name_, "has the token id \"" + token + "\"; it must be a whole number");
      }
      if (bias == "-inf") biases.emplace_back(std::stoi(token), -std::numeric_limits<double>::infinity());
      else if (bias.is_number()) biases.emplace_back(std::stoi(token), bias.get<double>());
      else throw WrongValue(name_ + "[" + token + "]", bias.dump(), "a number or \"-inf\"");
    }
    return biases;
  }

 private:
  std::optional<Value> whole() const {
    const bool fits =
        json_.is_number_integer() && !(json_.is_number_unsigned() && json_.get<std::uint64_t>() > INT64_MAX);
    return fits ? std::optional<Value>(json_.get<std::int64_t>()) : std::nullopt;
  }
  std::optional<Value> string() const {
    return json_.is_string() ? std::optional<Value>(json_.get<std::string>()) : std::nullopt;
  }
  std::optional<Value> strings() const {
    if (json_.is_string()) return std::vector<std::string>{json_.get<std::string>()};
    std::vector<std::string> strings;
    if (!json_.is_array()) return std::nullopt;
    for (const Json& one : json_) {
      if (!one.is_string()) return std::nullopt;
      strings.push_back(one.get<std::string>());
    }
    return strings;
  }

  const std::string& name_;
  const Json& json_;
};

}  // namespace

void set_option(Request& request, const RequestOption& option, const Json& json) {
  if (json.is_null()) return;
  const std::optional<Value> value = std::visit(Reader(option.name, json), option.type);
  if (!value) throw WrongValue(option.name, json.dump(), option.requirement());
  option.check(*value);
  option.set(request, *value);
}

}  // namespace specdec
