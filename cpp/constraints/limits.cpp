#include "constraints/limits.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "base/utf8.h"

namespace specdec {
namespace {

// The larger number of {n}, {n,} or {n,m} that begins at text[at]; 1 if there is none.
std::int64_t count_at(const std::string& text, std::size_t at) {
  if (at >= text.size() || text[at] != '{') return 1;
  std::int64_t most = 1;
  for (const char* number = text.c_str() + at + 1; *number != '\0' && *number != '}';) {
    char* end = nullptr;
    most = std::max<std::int64_t>(most, std::min<long long>(std::strtoll(number, &end, 10), INT32_MAX));
    number = end == number ? number + 1 : end;
  }
  return most;
}

}  // namespace

void check_constraint_text(const std::string& name, const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw std::invalid_argument(name + " is empty");
  if (text.size() > max_constraint_bytes) {
    throw std::invalid_argument(name + " has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_constraint_bytes) +
                                " are allowed");
  }
  if (text.find('\0') != std::string::npos) throw std::invalid_argument(name + " has a null character");
  if (valid_utf8(text) != text) throw std::invalid_argument(name + " is not UTF-8");
}

std::size_t end_of_quoted(const std::string& text, std::size_t start) {
  const char open = text[start], close = open == '[' ? ']' : open == '#' ? '\n' : open;
  std::size_t at = start + 1;
  while (at < text.size() && text[at] != close) at += open != '#' && text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

void check_nesting_and_counts(const std::string& name, const std::string& text, bool has_literals) {
  std::vector<std::int64_t> places = {0};  // by depth; a place outside of counted repetitions does not count
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[' || (has_literals && (c == '"' || c == '#'))) {
      at = end_of_quoted(text, at);
      continue;
    }
    if (c == '(') {
      places.push_back(0);
      if (static_cast<int>(places.size()) > max_constraint_depth) {
        throw std::invalid_argument(name + " has parentheses nested " + std::to_string(max_constraint_depth) + " levels deep or more");
      }
    } else if (c == ')' && places.size() > 1) {
      const std::int64_t inside = places.back(), count = count_at(text, at + 1);
      places.pop_back();
      places.back() += count > 1 ? std::max<std::int64_t>(inside, 1) * count : inside;
    } else if (c == '{' && (at == 0 || text[at - 1] != ')')) {
      places.back() += count_at(text, at);
    }
    if (places.back() > max_counted_places) fail_too_many_places(name);
    at += c == '\\' ? 2 : 1;
  }
}

void fail_too_many_places(const std::string& name) {
  throw std::invalid_argument(name + " repeats up to more than " + std::to_string(max_counted_places) +
                              " times in all; use smaller counts, or no upper bound");
}

}  // namespace specdec
