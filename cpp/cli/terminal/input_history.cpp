#include "cli/terminal/input_history.h"

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "platform/output_file.h"
#include "platform/user_folder.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 1000;
constexpr std::size_t longest_kept = std::size_t{64} << 10;  // bytes of an entry that is kept for the next run

template <class T>
void keep_latest(std::vector<T>& all) {
  if (all.size() > most_entries) all.erase(all.begin(), all.end() - most_entries);
}

// Replaces the file in one step. A line that another run adds at that moment may be lost, as in shells.
void rewrite(const std::string& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  try {
    OutputFile output(path, true, "");
    fs::permissions(output.partial(), fs::perms::owner_read | fs::perms::owner_write);
    output.file().write(0, text.data(), text.size());
    output.publish();
  } catch (const std::exception&) {  // add() reports when the history cannot be written
  }
}

}  // namespace

InputHistory::InputHistory(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  std::vector<std::string> lines;
  for (std::string line; !path_.empty() && std::getline(file, line);) {
    lines.push_back(line);
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_string()) entries_.push_back(entry.get<std::string>());
  }
  keep_latest(entries_);
  if (lines.size() <= most_entries) return;
  keep_latest(lines);
  rewrite(path_, lines);
}

void InputHistory::add(const std::string& text) {
  if (text.find_first_not_of(" \t\n") == std::string::npos || (!entries_.empty() && entries_.back() == text)) return;
  entries_.push_back(text);
  if (path_.empty() || text.size() > longest_kept) return;
  const fs::path folder = fs::path(path_).parent_path();
  std::error_code ignored;
  if (fs::create_directories(folder, ignored))
    fs::permissions(folder, fs::perms::owner_all, ignored);  // typed text may be private
  // Writes a whole line at once, so that concurrent runs do not mix their lines.
  std::ofstream file(path_, std::ios::app);
  file << nlohmann::json(text).dump() + "\n" << std::flush;
  if (!file) throw Error(path_ + ": the history cannot be written; --no-history turns it off");
}

std::string history_path(const std::string& name) {
  const std::string folder = user_state_folder();
  return folder.empty() ? "" : folder + "/" + name;
}

}  // namespace specdec::cli
