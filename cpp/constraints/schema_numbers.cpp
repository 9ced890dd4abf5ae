#include "constraints/schema_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t usual_digits = 16;

// A number without its sign: digits before the point (no leading zeros; "0") and after it (no trailing zeros).
struct Decimal {
  bool is_negative = false;
  std::string whole, fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

Decimal decimal_of(const Json& number) {
  std::string text = number.dump();
  Decimal decimal;
  decimal.is_negative = text.front() == '-';
  if (decimal.is_negative) text.erase(0, 1);
  int exponent = 0;
  const std::size_t e = text.find_first_of("eE");
  if (e != std::string::npos) {
    exponent = std::atoi(text.c_str() + e + 1);
    text.erase(e);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  int before = static_cast<int>(point) + exponent;  // digits before the point
  if (before <= 0) {
    digits.insert(0, idx(1 - before), '0');
    before = 1;
  }
  if (idx(before) > digits.size()) digits.append(idx(before) - digits.size(), '0');
  decimal.whole = digits.substr(0, idx(before));
  decimal.fraction = digits.substr(idx(before));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size() - 1));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.is_zero()) decimal.is_negative = false;
  return decimal;
}

// Regular expressions for magnitudes, "12.5", as alternatives.

const char* const any_fraction = "([.][0-9]+)?";

std::string digits_between(char low, char high) { return std::string("[") + low + "-" + high + "]"; }
std::string any_digits(std::size_t count) { return "[0-9]{" + std::to_string(count) + "}"; }

std::string at_least(const Decimal& bound, bool is_exclusive) {
  const std::string &whole = bound.whole, &fraction = bound.fraction;
  std::string out = "[1-9][0-9]{" + std::to_string(whole.size()) + ",}" + any_fraction;  // more digits
  if (whole == "0") out = "[1-9][0-9]*" + std::string(any_fraction);
  for (std::size_t i = 0; whole != "0" && i < whole.size(); ++i) {
    if (whole[i] == '9') continue;
    out += "|" + whole.substr(0, i) + digits_between(static_cast<char>(whole[i] + 1), '9') +
           any_digits(whole.size() - i - 1) + any_fraction;
  }
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    if (fraction[i] == '9') continue;
    out += "|" + whole + "[.]" + fraction.substr(0, i) + digits_between(static_cast<char>(fraction[i] + 1), '9') +
           "[0-9]*";
  }
  if (is_exclusive) out += "|" + whole + "[.]" + fraction + "0*[1-9][0-9]*";
  else out += "|" + whole + (fraction.empty() ? any_fraction : "[.]" + fraction + "[0-9]*");
  return out;
}

std::string at_most(const Decimal& bound, bool is_exclusive) {
  const std::string &whole = bound.whole, &fraction = bound.fraction;
  std::string out;
  const auto add = [&out](const std::string& one) { out += (out.empty() ? "" : "|") + one; };
  if (whole.size() > 1) add("(0|[1-9][0-9]{0," + std::to_string(whole.size() - 2) + "})" + any_fraction);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const char low = i == 0 && whole.size() > 1 ? '1' : '0';
    if (whole[i] <= low) continue;
    add(whole.substr(0, i) + digits_between(low, static_cast<char>(whole[i] - 1)) + any_digits(whole.size() - i - 1) +
        any_fraction);
  }
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    add(whole + (i == 0 ? "" : "[.]" + fraction.substr(0, i)));
    if (fraction[i] > '0')
      add(whole + "[.]" + fraction.substr(0, i) + digits_between('0', static_cast<char>(fraction[i] - 1)) + "[0-9]*");
  }
  if (!is_exclusive) add(whole + (fraction.empty() ? "([.]0+)?" : "[.]" + fraction + "0*"));
  return out;
}

const char* const any_magnitude = "[0-9]+([.][0-9]+)?";

std::string not_below(const NumberRange::Bound& bound) {
  const Decimal decimal = decimal_of(bound.value);
  if (!decimal.is_negative) return at_least(decimal, bound.is_exclusive);
  return any_magnitude + ("|-(" + at_most(decimal, bound.is_exclusive)) + ")";
}

std::string not_above(const NumberRange::Bound& bound) {
  const Decimal decimal = decimal_of(bound.value);
  if (decimal.is_negative) return "-(" + at_least(decimal, bound.is_exclusive) + ")";
  if (decimal.is_zero() && bound.is_exclusive) return "-(" + at_least(decimal, true) + ")";
  return at_most(decimal, bound.is_exclusive) + "|-(" + any_magnitude + ")";
}

bool is_below(const Json& value, const NumberRange::Bound& least) {
  return compare_numbers(value, least.value) < (least.is_exclusive ? 1 : 0);
}
bool is_above(const Json& value, const NumberRange::Bound& most) {
  return compare_numbers(value, most.value) > (most.is_exclusive ? -1 : 0);
}

// Below 0, 0 or above 0.
int compare_digits(const std::string& left, const std::string& right) {
  const int order = left.compare(right);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

bool is_whole(const Json& value) { return value.is_number_integer() || decimal_of(value).fraction.empty(); }

// Without its fraction; nullopt if it is too large.
std::optional<std::int64_t> whole_part(const Json& value) {
  constexpr std::int64_t far = std::int64_t{1} << 62;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62) return std::nullopt;
  if (value.is_number_float() && std::abs(value.get<double>()) > 1e15) return std::nullopt;
  const auto whole =
      value.is_number_float() ? static_cast<std::int64_t>(value.get<double>()) : value.get<std::int64_t>();
  return whole > far || whole < -far ? std::nullopt : std::optional<std::int64_t>(whole);
}

// The remainder of a whole number's digits.
std::uint64_t remainder_of(const Json& value, std::uint64_t divisor) {
  std::uint64_t remainder = 0;
  for (const char digit : decimal_of(value).whole) {
    remainder =
        static_cast<std::uint64_t>((static_cast<unsigned __int128>(remainder) * 10 + idx(digit - '0')) % divisor);
  }
  return remainder;
}

}  // namespace

Magnitude magnitude_of(const Json& number) {
  const Decimal decimal = decimal_of(number);
  if (decimal.whole.size() > max_number_digits) return Magnitude::large;
  return decimal.fraction.size() >= max_number_digits ? Magnitude::small : Magnitude::usual;
}

int compare_numbers(const Json& left, const Json& right) {
  if (left.is_number_float() && right.is_number_float()) {
    const double difference = left.get<double>() - right.get<double>();
    return difference < 0 ? -1 : difference > 0 ? 1 : 0;
  }
  const Decimal a = decimal_of(left), b = decimal_of(right);
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  int order =
      a.whole.size() != b.whole.size() ? (a.whole.size() < b.whole.size() ? -1 : 1) : compare_digits(a.whole, b.whole);
  if (order == 0) order = compare_digits(a.fraction, b.fraction);
  return a.is_negative ? -order : order;
}

bool are_equal_values(const Json& left, const Json& right) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.type() != right.type() || left.size() != right.size()) return false;
  if (left.is_array()) return std::equal(left.begin(), left.end(), right.begin(), are_equal_values);
  if (!left.is_object()) return left == right;
  for (const auto& [name, value] : left.items()) {
    if (!right.contains(name) || !are_equal_values(value, right.at(name))) return false;
  }
  return true;
}

Json with_plain_numbers(Json value) {
  if (value.is_structured()) {
    for (Json& part : value) part = with_plain_numbers(std::move(part));
  }
  if (!value.is_number_float()) return value;
  const double number = value.get<double>(), limit = std::ldexp(1.0, 63);
  if (number != std::trunc(number) || number < -limit || number >= 2 * limit) return value;
  return number < limit ? Json(static_cast<std::int64_t>(number)) : Json(static_cast<std::uint64_t>(number));
}

bool NumberRange::contains(const Json& value) const {
  if ((is_integer && !is_whole(value)) || (least && is_below(value, *least)) || (most && is_above(value, *most)))
    return false;
  return std::all_of(divisors.begin(), divisors.end(),
                     [&](std::uint64_t divisor) { return is_whole(value) && remainder_of(value, divisor) == 0; });
}

NumberRange NumberRange::operator&(const NumberRange& other) const {
  NumberRange both = *this;
  both.is_integer = is_integer || other.is_integer;
  const auto is_tighter = [](const Bound& one, const std::optional<Bound>& than, int sign) {
    const int order = than ? sign * compare_numbers(one.value, than->value) : 1;
    return order > 0 || (order == 0 && one.is_exclusive);
  };
  if (other.least && is_tighter(*other.least, least, 1)) both.least = other.least;
  if (other.most && is_tighter(*other.most, most, -1)) both.most = other.most;
  both.divisors.insert(both.divisors.end(), other.divisors.begin(), other.divisors.end());
  return both;
}

std::optional<std::vector<std::int64_t>> few_integers(const NumberRange& range, std::int64_t max_count) {
  if (!range.is_integer || !range.least || !range.most) return std::nullopt;
  const std::optional<std::int64_t> least = whole_part(range.least->value), most = whole_part(range.most->value);
  constexpr std::int64_t widest = 1'000'000;
  if (!least || !most || *least > *most || *most - *least > widest) {
    if (!least || !most || *least <= *most) return std::nullopt;
    return std::vector<std::int64_t>();
  }
  std::vector<std::int64_t> values;
  for (std::int64_t value = *least - 1; value <= *most + 1; ++value) {
    if (!range.contains(value)) continue;
    if (static_cast<std::int64_t>(values.size()) == max_count) return std::nullopt;
    values.push_back(value);
  }
  return values;
}

Pattern number_texts(const NumberRange& range) {
  std::size_t digits = usual_digits, decimals = usual_digits, longest_bound = 0;
  for (const auto* bound : {&range.least, &range.most}) {
    if (!*bound) continue;
    const Decimal decimal = decimal_of((*bound)->value);
    digits = std::max(digits, decimal.whole.size());
    decimals = std::max(decimals, decimal.fraction.size() + 1);
    longest_bound = std::max(longest_bound, decimal.whole.size() + decimal.fraction.size());
  }
  digits = std::min(digits, max_number_digits);
  decimals = std::min(decimals, max_number_digits);
  const std::string whole = "(0|[1-9][0-9]{0," + std::to_string(digits - 1) + "})";
  std::string shape = "-?" + whole + "([.][0-9]{1," + std::to_string(decimals) + "})?";
  if (!range.least && !range.most) shape += "([eE][+-]?[0-9]{1,2})?";
  // Of up to 15 digits, numbers that differ are different doubles, so that an exclusive bound is not reached by
  // rounding.
  const bool is_exclusive = (range.least && range.least->is_exclusive) || (range.most && range.most->is_exclusive);
  if (range.is_integer) shape = "0|-?[1-9][0-9]{0," + std::to_string(digits - 1) + "}";
  Pattern texts(shape, Pattern::Match::whole);
  if (range.least) texts = texts & Pattern(not_below(*range.least), Pattern::Match::whole);
  if (range.most) texts = texts & Pattern(not_above(*range.most), Pattern::Match::whole);
  if (is_exclusive && !range.is_integer) {
    const std::size_t length = std::max(usual_digits, longest_bound + 3);
    texts = texts & Pattern("-?[0-9.]{1," + std::to_string(length) + "}", Pattern::Match::whole);
  }
  for (std::uint64_t divisor : range.divisors) {
    int zeros = 0;
    for (; divisor % 10 == 0; divisor /= 10) ++zeros;
    if (divisor > max_divisor) throw PatternError("a multiple of so large a number cannot be enforced", true);
    texts = texts & Pattern::multiples(static_cast<int>(divisor), zeros);
  }
  return texts;
}

}  // namespace specdec
