#include "base/json_limits.h"

#include <vector>

namespace specdec {

std::string json_excess(std::string_view text) {
  std::vector<std::uint64_t> names;  // of each open object or list, so far
  std::size_t num_values = 1;
  std::uint64_t num_comparisons = 0;
  bool is_string = false, is_just_open = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      else is_string = c != '"';
      continue;
    }
    const bool is_blank = c == ' ' || c == '\n' || c == '\r' || c == '\t', is_end = c == '}' || c == ']';
    if (is_just_open && !is_blank) {
      num_values += is_end ? 0 : 1;
      is_just_open = false;
    }
    if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      if (names.size() >= static_cast<std::size_t>(max_json_depth))
        return "lists and objects nested more than " + std::to_string(max_json_depth) + " levels deep";
      names.push_back(0);
      is_just_open = true;
    } else if (is_end) {
      if (!names.empty()) names.pop_back();
    } else if (c == ',') {
      ++num_values;
    } else if (c == ':' && !names.empty()) {
      num_comparisons += names.back()++;
    }
    if (num_values > max_json_values) return "more than " + std::to_string(max_json_values) + " values";
    if (num_comparisons > max_json_comparisons)
      return "objects with too many names: more than 11585 in one, or several that large";
  }
  return "";
}

}  // namespace specdec
