#include "cli/terminal/completion.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/utf8.h"
#include "cli/terminal/columns.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_listed = 120;

bool begins_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

int cells(const std::string& text) {
  int sum = 0;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) sum += cell_width(utf8_character(text, at));
  return sum;
}

}  // namespace

Completion complete_word(const std::string& text, std::size_t start, const std::vector<std::string>& words) {
  const std::string typed = text.substr(start);
  Completion result{start, {}};
  for (const std::string& word : words) {
    if (begins_with(word, typed)) result.candidates.push_back(word);
  }
  std::sort(result.candidates.begin(), result.candidates.end());
  return result;
}

Completion complete_path(const std::string& text, std::size_t start) {
  const std::size_t slash = text.find_last_of('/');
  const std::size_t name = slash == std::string::npos || slash < start ? start : slash + 1;
  const std::string folder = name == start ? "." : with_home(text.substr(start, name - start));
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (printable(file) != file || (file.front() == '.' && text.compare(name, 1, ".") != 0)) continue;
    std::error_code ignored;
    names.push_back(file + (entry->is_directory(ignored) ? "/" : ""));
  }
  return complete_word(text, name, names);
}

std::string common_start(const std::vector<std::string>& candidates) {
  std::string start = candidates.empty() ? "" : candidates.front();
  for (const std::string& candidate : candidates) {
    const auto difference = std::mismatch(start.begin(), start.end(), candidate.begin(), candidate.end()).first;
    start.erase(difference, start.end());
  }
  // Cut only between characters.
  std::size_t at = 0;
  while (at < start.size() && at + utf8_length(start[at]) <= start.size()) at += utf8_length(start[at]);
  return start.substr(0, at);
}

std::string listing(const std::vector<std::string>& candidates, int width) {
  const std::size_t shown = std::min(candidates.size(), most_listed);
  int column = 0;
  for (std::size_t i = 0; i < shown; ++i) column = std::max(column, cells(candidates[i]) + 2);
  const int per_row = std::max(1, width / std::max(1, column));
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    text += candidates[i];
    const bool ends_row = (static_cast<int>(i) + 1) % per_row == 0 || i + 1 == shown;
    text += ends_row ? "\n" : std::string(static_cast<std::size_t>(column - cells(candidates[i])), ' ');
  }
  if (shown < candidates.size()) text += "and " + std::to_string(candidates.size() - shown) + " more\n";
  return text;
}

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home != nullptr && begins_with(path, "~/") ? home + path.substr(1) : path;
}

}  // namespace specdec::cli
