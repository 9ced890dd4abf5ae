#include "constraints/limits.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/argument.h"
#include "base/index.h"
#include "base/utf8.h"

namespace specdec {
namespace {

struct Count {
  std::int64_t most;
  std::size_t end;  // index past it
};

// The larger number of {n}, {n,} or {n,m} that begins at text[at]; 1 if there is none.
Count count_at(const std::string& text, std::size_t at) {
  if (at >= text.size() || text[at] != '{') return {1, at};
  std::int64_t most = 1;
  const char* number = text.c_str() + at + 1;
  while (*number != '\0' && *number != '}') {
    char* end = nullptr;
    most = std::max<std::int64_t>(most, std::min<long long>(std::strtoll(number, &end, 10), INT32_MAX));
    number = end == number ? number + 1 : end;
  }
  return {most, std::min(idx(number - text.c_str()) + 1, text.size())};
}

}  // namespace

void check_constraint_text(const std::string& name, const std::string& text, std::size_t max_bytes) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw ArgumentError(name, "is empty");
  if (text.size() > max_bytes) {
    throw ArgumentError(
        name, "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_bytes) + " are allowed");
  }
  if (text.find('\0') != std::string::npos) throw ArgumentError(name, "has a null character");
  if (valid_utf8(text) != text) throw ArgumentError(name, "is not UTF-8");
}

std::size_t end_of_quoted(const std::string& text, std::size_t start) {
  const char open = text[start], close = open == '[' ? ']' : open == '#' ? '\n' : open;
  std::size_t at = start + 1;
  while (at < text.size() && text[at] != close) at += open != '#' && text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

void check_nesting_and_counts(const std::string& name, const std::string& text, bool has_literals) {
  std::vector<std::int64_t> places = {0};  // by depth
  // Adds an expression that ends at `end`, with the count that follows it.
  const auto add = [&](std::int64_t inside, std::size_t end) {
    const Count count = count_at(text, end);
    places.back() += inside * count.most;
    if (places.back() > max_counted_places) fail_too_many_places(name);
    return count.end;
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[') {
      at = add(1, end_of_quoted(text, at));
    } else if (has_literals && (c == '"' || c == '#')) {
      const std::size_t end = end_of_quoted(text, at);
      at = end < text.size() && text[end] == '{' ? add(1, end) : end;
    } else if (c == '(') {
      places.push_back(0);
      if (static_cast<int>(places.size()) > max_constraint_depth) {
        throw ArgumentError(name,
                            "has parentheses nested " + std::to_string(max_constraint_depth) + " levels deep or more");
      }
      ++at;
    } else if (c == ')' && places.size() > 1) {
      const std::int64_t inside = places.back();
      places.pop_back();
      at = add(at + 1 < text.size() && text[at + 1] == '{' ? std::max<std::int64_t>(inside, 1) : inside, at + 1);
    } else if (c == '.' || c == '\\') {
      at = add(1, std::min(at + (c == '.' ? 1 : 2), text.size()));
    } else if (at + 1 < text.size() && text[at + 1] == '{') {
      at = add(1, at + 1);
    } else {
      ++at;
    }
  }
}

void fail_too_many_places(const std::string& name) {
  throw ArgumentError(
      name, "has more than " + std::to_string(max_counted_places) +
                " classes of characters, counted as often as they are repeated; use smaller counts, or no upper bound");
}

}  // namespace specdec
