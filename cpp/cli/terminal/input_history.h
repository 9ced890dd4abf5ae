// What was typed earlier, in this run and in earlier runs.
#pragma once

#include <string>
#include <vector>

namespace specdec::cli {

class InputHistory {
 public:
  // path: the history's file, a JSON string per line, created with its folder when something is added; "": none. Lines
  // that are not JSON strings are ignored. The file keeps the latest 1000 lines.
  explicit InputHistory(std::string path = "");

  const std::vector<std::string>& entries() const { return entries_; }  // oldest first
  // Blank text and a repetition of the last entry are left out; text of more than 64 KiB is kept only for this run.
  // Throws Error if the file cannot be written; the entry is still kept for this run.
  void add(const std::string& text);
  void keep_in_memory() { path_.clear(); }  // from now on

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

// The path of a program's history; "" if there is no folder for it (user_state_folder()).
std::string history_path(const std::string& name);

}  // namespace specdec::cli
