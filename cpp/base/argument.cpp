#include "base/argument.h"

#include <cmath>
#include <sstream>
#include <utility>

namespace specdec {

ArgumentError::ArgumentError(std::string name, const std::string& problem)
    : std::invalid_argument(name + " " + problem), name_(std::move(name)) {}

WrongValue::WrongValue(std::string name, const std::string& value, std::string requirement)
    : ArgumentError(std::move(name), "is " + value + "; it must be " + requirement),
      requirement_(std::move(requirement)) {}

bool Range::contains(double value) const noexcept {
  const bool above = excludes_low ? value > low : value >= low;
  return above && value <= high && (!is_whole || value == std::floor(value));
}

std::string Range::text() const {
  const std::string suffix = *note == '\0' ? "" : std::string(" (") + note + ")";
  if (is_whole) return "a whole number from " + number_text(low) + " to " + number_text(high) + suffix;
  const bool has_low = low > std::numeric_limits<double>::lowest();
  const bool has_high = high < std::numeric_limits<double>::max();
  std::string text = has_low && has_high ? "a number" : "a finite number";
  if (has_low) text += (excludes_low ? " above " : " of at least ") + number_text(low);
  if (has_high) text += std::string(has_low ? " and" : " of") + " at most " + number_text(high);
  return text + suffix;
}

std::string number_text(double value) {
  std::ostringstream text;
  text.precision(15);
  text << value;
  return text.str();
}

void check_range(const std::string& name, double value, const Range& range) {
  if (!range.contains(value)) throw WrongValue(name, number_text(value), range.text());
}

}  // namespace specdec
