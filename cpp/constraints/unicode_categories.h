// The general categories of Unicode's characters ("Lu", "Nd"), and the letters of some scripts ("Latin").
#pragma once

#include <vector>

namespace specdec {

struct UnicodeRun {
  char32_t first;     // of the characters up to the next run's first
  const char* value;  // "": none
};

extern const std::vector<UnicodeRun> unicode_categories, unicode_scripts;

}  // namespace specdec
