// Finds the extents of JSON values in a text that may end in the middle of one. The text of a value stays as it was
// written: parsing and printing again would change numbers, escapes and the order of keys.
#pragma once

#include <cstddef>
#include <string>

namespace specdec {

enum class Found { no, more, yes };  // more: only text that follows can tell

struct Extent {
  Found found = Found::no;
  std::size_t end = 0;  // behind the last byte, if found is yes
};

std::size_t skip_blank(const std::string& text, std::size_t at);

// The string, or the value of any kind, that begins at this byte. Objects and lists are only checked for balance.
Extent json_string_at(const std::string& text, std::size_t at);
Extent json_value_at(const std::string& text, std::size_t at);

// Whether the text at this byte is `mark`; more: the text ends within it.
Found mark_at(const std::string& text, std::size_t at, const std::string& mark);

// The same bytes as the inside of a JSON string. Pieces of a text can be escaped one by one.
std::string json_escaped(const char* begin, const char* end);
inline std::string json_escaped(const std::string& text) {
  return json_escaped(text.data(), text.data() + text.size());
}

}  // namespace specdec
