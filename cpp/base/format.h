// Numbers as text.
#pragma once

#include <cstdio>
#include <string>

namespace specdec {

// printf for a few numbers; the result has at most 159 characters.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace specdec
