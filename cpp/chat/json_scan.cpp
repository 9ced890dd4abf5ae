#include "chat/json_scan.h"

#include <algorithm>
#include <cstdio>

namespace specdec {

std::size_t skip_blank(const std::string& text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

Extent json_string_at(const std::string& text, std::size_t at) {
  if (at >= text.size()) return {Found::more};
  if (text[at] != '"') return {Found::no};
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    else if (text[i] == '"') return {Found::yes, i + 1};
  }
  return {Found::more};
}

Extent json_value_at(const std::string& text, std::size_t at) {
  if (at >= text.size()) return {Found::more};
  if (text[at] == '"') return json_string_at(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const std::size_t end = text.find_first_of(",]} \t\r\n", at);
    if (end == at) return {Found::no};
    return end == std::string::npos ? Extent{Found::more} : Extent{Found::yes, end};
  }
  std::size_t depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const Extent string = json_string_at(text, i);
      if (string.found != Found::yes) return {Found::more};
      i = string.end - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return {Found::yes, i + 1};
    }
  }
  return {Found::more};
}

Found mark_at(const std::string& text, std::size_t at, const std::string& mark) {
  const std::size_t size = std::min(mark.size(), text.size() - std::min(at, text.size()));
  if (size > 0 && text.compare(at, size, mark, 0, size) != 0) return Found::no;
  return size == mark.size() ? Found::yes : Found::more;
}

std::string json_escaped(const char* begin, const char* end) {
  std::string escaped;
  for (; begin != end; ++begin) {
    const char c = *begin;
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (c == '\r') {
      escaped += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
      escaped += code;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace specdec
