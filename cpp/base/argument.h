// Valid ranges of arguments, and the errors that name the argument.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>

namespace specdec {

// "grammar is empty".
class ArgumentError : public std::invalid_argument {
 public:
  ArgumentError(std::string name, const std::string& problem);
  const std::string& name() const noexcept { return name_; }
  std::string problem() const { return std::string(what()).substr(name_.size() + 1); }  // "is empty"

 private:
  std::string name_;
};

// "top_p is 1.5; it must be a number above 0 and at most 1". requirement() is for callers that use another name for the
// argument.
class WrongValue : public ArgumentError {
 public:
  WrongValue(std::string name, const std::string& value, std::string requirement);
  const std::string& requirement() const noexcept { return requirement_; }

 private:
  std::string requirement_;
};

// Finite numbers from low to high.
struct Range {
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
  bool is_whole = false;      // whole numbers only
  bool excludes_low = false;  // low itself is not valid
  const char* note = "";      // what special values mean: "0: off"

  bool contains(double value) const noexcept;
  std::string text() const;  // "a whole number from 0 to 63", "a finite number of at least 0"
};

constexpr Range whole_numbers(int low, int high, const char* note = "") {
  return {static_cast<double>(low), static_cast<double>(high), true, false, note};
}
constexpr Range numbers(double low, double high) { return {low, high, false, false, ""}; }
constexpr Range numbers_from(double low) { return {low, std::numeric_limits<double>::max(), false, false, ""}; }
constexpr Range numbers_above(double low, double high) { return {low, high, false, true, ""}; }

// A number as errors show it, with up to 15 digits.
std::string number_text(double value);

// Throws WrongValue.
void check_range(const std::string& name, double value, const Range& range);

}  // namespace specdec
