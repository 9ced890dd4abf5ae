// What Tab may make of a word that is being typed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace specdec::cli {

// Each candidate may stand in the place of the text from `start` to the cursor.
struct Completion {
  std::size_t start = 0;  // in bytes
  std::vector<std::string> candidates;
};

// The words that begin with what stands behind `start`, sorted.
Completion complete_word(const std::string& text, std::size_t start, const std::vector<std::string>& words);

// The files and folders (they end with "/") whose path may begin with what stands behind `start`. Hidden ones only if
// asked for.
Completion complete_path(const std::string& text, std::size_t start);

// What all candidates begin with.
std::string common_start(const std::vector<std::string>& candidates);

// The candidates in rows of at most `width` cells; of very many the first ones.
std::string listing(const std::vector<std::string>& candidates, int width);

// "~/" as a shell would read it.
std::string with_home(const std::string& path);

}  // namespace specdec::cli
