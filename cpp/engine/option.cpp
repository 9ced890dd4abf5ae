#include "engine/option.h"

#include <algorithm>
#include <cstddef>

#include "speculative/sequence.h"

namespace specdec::option {
namespace {

constexpr const char* automatic = "auto";
constexpr const char* all = "all";
constexpr Range layers_range = whole_numbers(all_layers, 100000);
constexpr Range draft_tokens_range = whole_numbers(0, max_draft_tokens);

// "a, b or c"
std::string alternatives(const std::vector<std::string>& names) {
  std::string result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result += i + 1 < names.size() ? ", " : " or ";
    result += names[i];
  }
  return result;
}

struct Requirement {
  std::string operator()(const Flag&) const { return "true or false"; }
  std::string operator()(const Whole& type) const { return type.range.text(); }
  std::string operator()(const Number& type) const { return type.range.text(); }
  std::string operator()(const Seed&) const { return "a whole number from 0 to " + std::to_string(UINT64_MAX); }
  std::string operator()(const DraftTokens&) const { return draft_tokens_range.text() + " or " + automatic; }
  std::string operator()(const Layers&) const { return layers_range.text() + ", " + all + " or " + automatic; }
  std::string operator()(const Choice& type) const { return alternatives(type.names); }
  std::string operator()(const String&) const { return "a string"; }
  std::string operator()(const Schema&) const { return "a JSON schema"; }
  std::string operator()(const Object&) const { return "a JSON object"; }
  std::string operator()(const Path&) const { return "a string"; }
  std::string operator()(const Draft&) const { return "a string"; }
  std::string operator()(const Texts&) const { return "a string or a list of strings"; }
  std::string operator()(const Addresses&) const { return "a string or a list of strings"; }
  std::string operator()(const Biases&) const { return "a mapping of token ids to numbers"; }
  std::string operator()(const Tokens&) const { return "a list of token ids, whole numbers from 0"; }
};

struct ValueText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string result;
    for (const std::string& value : values) result += (result.empty() ? "" : ", ") + value;
    return result;
  }
  std::string operator()(const std::vector<Token>& tokens) const {
    std::string result;
    for (const Token token : tokens) result += (result.empty() ? "" : ", ") + std::to_string(token);
    return result;
  }
  std::string operator()(const sampling::LogitBias& biases) const {
    std::string result;
    for (const auto& [token, bias] : biases)
      result += (result.empty() ? "" : ", ") + std::to_string(token) + ": " + number_text(bias);
    return result;
  }
};

// Whether a value of the right type is valid.
class Valid {
 public:
  explicit Valid(const Value& value) : value_(value) {}
  bool operator()(const Whole& type) const {
    return type.range.contains(static_cast<double>(std::get<std::int64_t>(value_)));
  }
  bool operator()(const Number& type) const { return type.range.contains(std::get<double>(value_)); }
  bool operator()(const DraftTokens&) const {
    if (const auto* word = std::get_if<std::string>(&value_)) return *word == automatic;
    return draft_tokens_range.contains(static_cast<double>(std::get<std::int64_t>(value_)));
  }
  bool operator()(const Layers&) const {
    if (const auto* word = std::get_if<std::string>(&value_)) return *word == all || *word == automatic;
    return layers_range.contains(static_cast<double>(std::get<std::int64_t>(value_)));
  }
  bool operator()(const Choice& type) const {
    return std::find(type.names.begin(), type.names.end(), std::get<std::string>(value_)) != type.names.end();
  }
  bool operator()(const Biases&) const {
    sampling::check_logit_bias(std::get<sampling::LogitBias>(value_));
    return true;
  }
  bool operator()(const Tokens&) const {
    const auto& tokens = std::get<std::vector<Token>>(value_);
    return std::all_of(tokens.begin(), tokens.end(), [](Token token) { return token >= 0; });
  }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }

 private:
  const Value& value_;
};

}  // namespace

std::string Description::requirement() const { return std::visit(Requirement(), type); }

void Description::check(const Value& value) const {
  if (std::holds_alternative<std::monostate>(value)) {
    if (!is_optional) throw WrongValue(name, "missing", requirement());
  } else if (!std::visit(Valid(value), type)) {
    const std::string quote = std::holds_alternative<std::string>(value) ? "\"" : "";
    throw WrongValue(name, quote + text(value) + quote, requirement());
  }
}

std::string text(const Value& value) { return std::visit(ValueText(), value); }

Value layers_value(const std::optional<int>& num_layers) {
  if (!num_layers) return {};
  if (*num_layers == all_layers) return std::string(all);
  if (*num_layers == layers_that_fit) return std::string(automatic);
  return static_cast<std::int64_t>(*num_layers);
}

std::optional<int> layers_of(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  if (const auto* word = std::get_if<std::string>(&value)) return *word == all ? all_layers : layers_that_fit;
  return static_cast<int>(std::get<std::int64_t>(value));
}

Value draft_tokens_value(int num_draft_tokens) {
  return num_draft_tokens == auto_draft_tokens ? Value(std::string(automatic)) : to_value(num_draft_tokens);
}

int draft_tokens_of(const Value& value) {
  if (std::holds_alternative<std::string>(value)) return auto_draft_tokens;
  return static_cast<int>(std::get<std::int64_t>(value));
}

}  // namespace specdec::option
