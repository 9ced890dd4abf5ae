// Completes a word that is being typed (Tab).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace specdec::cli {

// Each candidate may replace the text from `start` to the cursor.
struct Completion {
  std::size_t start = 0;  // in bytes
  std::vector<std::string> candidates;
};

// The words that begin with the text after `start`, sorted.
Completion complete_word(const std::string& text, std::size_t start, const std::vector<std::string>& words);

// The files and folders (ending with "/") whose path may begin with the text after `start`; hidden ones only if the
// text asks for them.
Completion complete_path(const std::string& text, std::size_t start);

// The common beginning of all candidates.
std::string common_start(const std::vector<std::string>& candidates);

// The candidates in rows of at most `width` cells; if there are very many, the first ones.
std::string listing(const std::vector<std::string>& candidates, int width);

// Expands "~/" like a shell.
std::string with_home(const std::string& path);

}  // namespace specdec::cli
