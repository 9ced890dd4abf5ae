// Numbers and columns of the texts that commands print.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace specdec::cli {

// printf's notation for one number or a few; the result is short.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

// ASCII text filled with blanks to so many columns; longer text stays as it is.
inline std::string pad(const std::string& text, std::size_t columns) {
  return text.size() < columns ? text + std::string(columns - text.size(), ' ') : text;
}
inline std::string pad_left(const std::string& text, std::size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

// Three or four digits and the largest unit that leaves a number of at least 1.
inline std::string scaled(std::uint64_t value, double base, const std::vector<const char*>& units) {
  double number = static_cast<double>(value);
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && number >= base; ++unit) number /= base;
  return format(unit == 0 ? "%.0f" : number < 10 ? "%.2f" : "%.1f", number) + units[unit];
}
inline std::string count_text(std::uint64_t count) { return scaled(count, 1000.0, {"", " k", " M", " B", " T"}); }
inline std::string size_text(std::uint64_t bytes) { return scaled(bytes, 1024.0, {" B", " KiB", " MiB", " GiB", " TiB"}); }

}  // namespace specdec::cli
