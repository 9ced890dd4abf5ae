#include "cli/option_table.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace specdec::cli {
namespace {

using option::Value;

// llama.cpp's notation: TOKEN_ID+BIAS or TOKEN_ID-BIAS; -inf bans the token.
std::pair<Token, double> parse_logit_bias(const std::string& text) {
  const std::size_t sign = text.find_first_of("+-");
  if (sign == std::string::npos) throw UsageError("expected TOKEN_ID+BIAS or TOKEN_ID-BIAS, got \"" + text + "\"");
  const auto token = static_cast<Token>(parse_integer(text.substr(0, sign), 0, std::numeric_limits<Token>::max()));
  const std::string bias = text.substr(sign);
  if (bias == "-inf") return {token, -std::numeric_limits<double>::infinity()};
  return {token, parse_real(bias[0] == '+' ? bias.substr(1) : bias, {})};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
    end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
  }
  return parts;
}

// Parses text as a Value of an option's type; nullopt if it is not one.
class Reader {
 public:
  Reader(const std::string& text, Value present) : text_(text), present_(std::move(present)) {}

  std::optional<Value> operator()(const option::Flag&) const { return std::nullopt; }  // takes no text
  std::optional<Value> operator()(const option::Whole&) const { return whole(); }
  std::optional<Value> operator()(const option::Number&) const {
    const std::optional<double> number = real_number(text_);
    return number ? std::optional<Value>(*number) : std::nullopt;
  }
  std::optional<Value> operator()(const option::Seed&) const {
    const auto number = whole_number<std::uint64_t>(text_);
    return number ? std::optional<Value>(*number) : std::nullopt;
  }
  std::optional<Value> operator()(const option::DraftTokens&) const {
    const std::optional<Value> number = whole();
    return number ? number : text_;
  }
  std::optional<Value> operator()(const option::Choice&) const { return text_; }
  std::optional<Value> operator()(const option::String&) const { return text_; }
  std::optional<Value> operator()(const option::Schema&) const { return text_; }
  std::optional<Value> operator()(const option::Path&) const { return text_; }
  std::optional<Value> operator()(const option::Draft&) const {
    if (whole()) throw UsageError("expected a draft model, suffix, ngram or auto, got \"" + text_ + "\"; -k sets the number of drafts");
    return text_;
  }
  std::optional<Value> operator()(const option::Texts&) const {
    auto texts = std::get<std::vector<std::string>>(present_);
    texts.push_back(text_);
    return texts;
  }
  std::optional<Value> operator()(const option::Addresses&) const { return split(text_, ','); }
  std::optional<Value> operator()(const option::Biases&) const {
    auto biases = std::get<sampling::LogitBias>(present_);
    biases.push_back(parse_logit_bias(text_));
    return biases;
  }

 private:
  std::optional<Value> whole() const {
    const auto number = whole_number<std::int64_t>(text_);
    return number ? std::optional<Value>(*number) : std::nullopt;
  }

  const std::string& text_;
  const Value present_;
};

Value read(const option::Description& row, const Value& present, const std::string& text) {
  const std::string& word = row.flags.word;
  if (!word.empty() && text == word) return row.flags.word_value;
  std::string requirement = row.requirement();
  try {
    if (const std::optional<Value> value = std::visit(Reader(text, present), row.type)) {
      row.check(*value);
      return *value;
    }
  } catch (const WrongValue& error) {
    requirement = error.requirement();  // of a part of it, perhaps
  }
  throw UsageError("expected " + requirement + (word.empty() ? "" : " or " + word) + ", got \"" + text + "\"");
}

struct ShowsDefault {
  bool operator()(const option::Whole&) const { return true; }
  bool operator()(const option::Number&) const { return true; }
  bool operator()(const option::DraftTokens&) const { return true; }
  bool operator()(const option::Choice&) const { return true; }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

std::string help_of(const option::Description& row, const Value& value) {
  const std::string& help = row.flags.help;
  const bool is_told = help.find("(default") != std::string::npos || std::holds_alternative<std::monostate>(value);
  return is_told || !std::visit(ShowsDefault(), row.type) ? help : help + " (default: " + option::text(value) + ")";
}

}  // namespace

Option option_of(const option::Description& row, const std::function<Value()>& present, const std::function<void(const Value&)>& set) {
  const Value initial = present();
  Option option{row.flags.names, row.flags.placeholder, help_of(row, initial), nullptr};
  if (std::holds_alternative<option::Flag>(row.type)) {
    option.set = [set, value = !std::get<bool>(initial)](const std::string&) { set(value); };
  } else {
    option.set = [row, present, set](const std::string& text) { set(read(row, present(), text)); };
  }
  return option;
}

}  // namespace specdec::cli
