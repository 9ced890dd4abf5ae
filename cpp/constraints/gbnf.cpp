#include "constraints/gbnf.h"

#include <cstddef>
#include <cstring>

#include "constraints/limits.h"

namespace specdec {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

std::string gbnf_literal(const std::string& text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    if (c == '\n') literal += "\\n";
    else if (c == '\r') literal += "\\r";
    else if (c == '\t') literal += "\\t";
    else literal += c;
  }
  return literal + "\"";
}

std::string xgrammar_text_of(const std::string& gbnf) {
  check_constraint_text("grammar", gbnf);
  check_nesting_and_counts("grammar", gbnf, true);
  std::string out;
  char last = 'x';  // the previous character, not counting spaces and comments
  for (std::size_t at = 0; at < gbnf.size();) {
    const char c = gbnf[at];
    if (c == '"' || c == '[' || c == '#') {
      const std::size_t end = end_of_quoted(gbnf, at);
      out.append(gbnf, at, end - at);
      at = end;
      if (c != '#') last = 'x';
      continue;
    }
    const bool is_empty =
        (c == '|' && (last == '=' || last == '|' || last == '(')) || (c == ')' && (last == '|' || last == '('));
    if (is_empty) out += "\"\" ";
    if (std::strchr(" \t\r\n", c) == nullptr) last = c;
    const bool in_name =
        (at > 0 && is_name_character(gbnf[at - 1])) || (at + 1 < gbnf.size() && is_name_character(gbnf[at + 1]));
    if (c == '.' && !in_name) out += "[^\\x00]";
    else out += c;
    ++at;
  }
  if (last == '|') out += " \"\"";
  return out;
}

}  // namespace specdec
