// Which texts of numbers a JSON schema allows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "constraints/pattern.h"

namespace specdec {

struct NumberRange {
  struct Bound {
    nlohmann::ordered_json value;  // a number
    bool is_exclusive = false;
  };
  bool is_integer = false;
  std::optional<Bound> least, most;
  std::vector<std::uint64_t> divisors;  // of integers: each divides the value

  bool contains(const nlohmann::ordered_json& value) const;  // a number
  NumberRange operator&(const NumberRange& other) const;
};

// Exact, of any two numbers; nlohmann's operators convert an unsigned number above 2^63 into a negative one. Below 0:
// left is less.
int compare_numbers(const nlohmann::ordered_json& left, const nlohmann::ordered_json& right);
// Whether two values are the same one for JSON Schema: 1.0 is 1, and the order of names does not matter.
bool are_equal_values(const nlohmann::ordered_json& left, const nlohmann::ordered_json& right);
// With one text for equal numbers, also within: integers without a fraction, 1 for 1.0, as far as they have 64 bits.
nlohmann::ordered_json with_plain_numbers(nlohmann::ordered_json value);

// Numbers with more digits before or after the point are not written.
constexpr std::size_t max_number_digits = 64;
enum class Magnitude { usual, large, small };  // large: more digits before the point; small: after it
Magnitude magnitude_of(const nlohmann::ordered_json& number);

// The largest divisor that number_texts() can express, once its factors of ten are taken out.
constexpr std::uint64_t max_divisor = 64;

// The integers of a range that has both bounds and at most max_count integers; nullopt for other ranges.
std::optional<std::vector<std::int64_t>> few_integers(const NumberRange& range, std::int64_t max_count);

// At most 16 digits before and after the point, or as many as a bound has; exponents, of at most two digits, only
// without bounds. Throws PatternError if a divisor is too large.
Pattern number_texts(const NumberRange& range);

}  // namespace specdec
