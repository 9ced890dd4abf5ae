#include "cli/terminal/input_history.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace specdec::cli {
namespace {

constexpr std::size_t most_entries = 1000;

}  // namespace

InputHistory::InputHistory(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  for (std::string line; !path_.empty() && std::getline(file, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_string()) entries_.push_back(entry.get<std::string>());
  }
  if (entries_.size() > most_entries) entries_.erase(entries_.begin(), entries_.end() - most_entries);
}

void InputHistory::add(const std::string& text) {
  if (text.find_first_not_of(" \t\n") == std::string::npos || (!entries_.empty() && entries_.back() == text)) return;
  entries_.push_back(text);
  if (path_.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code ignored;
  if (std::filesystem::create_directories(folder, ignored)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);  // it may be private
  }
  // A whole line at once, so that runs side by side do not mix theirs.
  std::ofstream file(path_, std::ios::app);
  file << nlohmann::json(text).dump() + "\n" << std::flush;
  if (!file) throw Error(path_ + ": the history cannot be written; --no-history does without");
}

std::string history_path(const std::string& name) {
  const auto variable = [](const char* of) {
    const char* value = std::getenv(of);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (!state.empty() && state.front() == '/') return state + "/specdec/" + name;  // relative ones are to be ignored
  return home.empty() ? "" : home + "/.local/state/specdec/" + name;
}

}  // namespace specdec::cli
