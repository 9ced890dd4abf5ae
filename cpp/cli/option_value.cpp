#include "cli/option_value.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace specdec::cli {
namespace {

using option::Value;
using Read = std::optional<Value>;  // nullopt: the text does not have the type

[[noreturn]] void expected(const std::string& what, const std::string& got) {
  throw UsageError("expected " + what + ", got \"" + got + "\"");
}

template <class Integer>  // std::int64_t, std::uint64_t
Read whole(const std::string& text) {
  Integer value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? Read(value) : std::nullopt;
}

// llama.cpp's notation: TOKEN_ID+BIAS or TOKEN_ID-BIAS; -inf bans the token.
std::pair<Token, double> logit_bias(const std::string& text) {
  constexpr Range tokens = whole_numbers(0, std::numeric_limits<Token>::max());
  const std::size_t sign = text.find_first_of("+-");
  if (sign == std::string::npos) expected("TOKEN_ID+BIAS or TOKEN_ID-BIAS", text);
  const std::string id = text.substr(0, sign), bias = text.substr(text[sign] == '+' ? sign + 1 : sign);
  const Read token = whole<std::int64_t>(id);
  if (!token || !tokens.contains(static_cast<double>(std::get<std::int64_t>(*token)))) expected(tokens.text(), id);
  const std::optional<double> number = real_number(bias);
  const bool is_ban = bias == "-inf";
  if (!is_ban && (!number || !Range().contains(*number))) expected(Range().text(), bias);
  return {static_cast<Token>(std::get<std::int64_t>(*token)),
          is_ban ? -std::numeric_limits<double>::infinity() : *number};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
    end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
  }
  return parts;
}

struct Reader {
  const std::string& text;
  const Option& option;

  Read operator()(const option::Whole&) const { return whole<std::int64_t>(text); }
  Read operator()(const option::Number&) const {
    const std::optional<double> number = real_number(text);
    return number ? Read(*number) : std::nullopt;
  }
  Read operator()(const option::Seed&) const { return whole<std::uint64_t>(text); }
  Read operator()(const option::DraftTokens&) const { return whole_or_word(); }
  Read operator()(const option::Layers&) const { return whole_or_word(); }
  Read operator()(const option::Draft&) const {
    if (whole<std::int64_t>(text))
      throw UsageError("expected a draft model, suffix, ngram or auto, got \"" + text +
                       "\"; -k sets the number of drafts");
    return text;
  }
  Read operator()(const option::Texts&) const {
    const Value before = option.get();
    const auto* texts = std::get_if<std::vector<std::string>>(&before);
    return with(text, texts != nullptr ? *texts : std::vector<std::string>());
  }
  Read operator()(const option::Biases&) const {
    return with(logit_bias(text), std::get<sampling::LogitBias>(option.get()));
  }
  Read operator()(const option::Addresses&) const { return split(text, ','); }
  Read operator()(const option::Tokens&) const {
    constexpr Range ids = whole_numbers(0, std::numeric_limits<Token>::max());
    std::vector<Token> tokens;
    for (const std::string& part : split(text, ',')) {
      const Read id = whole<std::int64_t>(part);
      if (!id || !ids.contains(static_cast<double>(std::get<std::int64_t>(*id)))) return std::nullopt;
      tokens.push_back(static_cast<Token>(std::get<std::int64_t>(*id)));
    }
    return tokens;
  }
  template <class Other>  // the text itself
  Read operator()(const Other&) const {
    return text;
  }

 private:
  Read whole_or_word() const {
    const Read number = whole<std::int64_t>(text);
    return number ? number : text;
  }
  template <class T>
  static Value with(T element, std::vector<T> list) {
    list.push_back(std::move(element));
    return list;
  }
};

}  // namespace

std::optional<double> real_number(const std::string& text) {
  char* stop = nullptr;
  const double value = std::strtod(text.c_str(), &stop);  // the locale is C's: nothing here calls setlocale
  const bool starts_blank = !text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0;
  if (text.empty() || starts_blank || stop != text.c_str() + text.size()) return std::nullopt;
  return value;
}

Value read_value(const Option& option, const std::string& text) {
  const std::string& word = option.flags.word;
  if (!word.empty() && text == word) return option.flags.word_value;
  std::string requirement = option.requirement();
  try {
    if (const Read value = std::visit(Reader{text, option}, option.type)) {
      option.check(*value);
      return *value;
    }
  } catch (const WrongValue& error) {
    requirement = error.requirement();  // perhaps of a part of the value
  }
  expected(requirement + (word.empty() ? "" : " or " + word), text);
}

}  // namespace specdec::cli
