// Formatting of numbers and columns in the output of commands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/format.h"

namespace specdec::cli {

// Pads ASCII text with blanks to `columns`; longer text is unchanged.
inline std::string pad(const std::string& text, std::size_t columns) {
  return text.size() < columns ? text + std::string(columns - text.size(), ' ') : text;
}
inline std::string pad_left(const std::string& text, std::size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

// "1 round", "2 rounds".
template <typename Count>
std::string counted(Count count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Three or four digits and the largest unit for which the number is at least 1.
inline std::string scaled(std::uint64_t value, double base, const std::vector<const char*>& units) {
  double number = static_cast<double>(value);
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && number >= base; ++unit) number /= base;
  return format(unit == 0 ? "%.0f" : number < 10 ? "%.2f" : "%.1f", number) + units[unit];
}
inline std::string count_text(std::uint64_t count) { return scaled(count, 1000.0, {"", " k", " M", " B", " T"}); }
inline std::string size_text(std::uint64_t bytes) {
  return scaled(bytes, 1024.0, {" B", " KiB", " MiB", " GiB", " TiB"});
}

}  // namespace specdec::cli
