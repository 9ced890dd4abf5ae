// Files that get their names only when they are complete, and the rule for names that exist already.
//
// Until then a file is called "<name>.partial-<process>" (a second one of a process: "-1" after that), and its writer
// holds its lock. A writer that is killed leaves it behind; whoever writes the same name next removes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "platform/file.h"

namespace specdec {

// The rule for every file that a user names to be written: it is a regular file or does not exist yet, its folder
// exists, and it is replaced only if `overwrites` (by the option or command in `remedy`, as in "--force replaces it").
// Throws Error.
void check_output(const std::string& path, bool overwrites, const std::string& remedy);

// Whether a partial file is nobody's: its lock is free, and the process in its name, if any, has ended. Where files
// cannot be locked, it must also have rested for an hour.
bool is_abandoned(const std::filesystem::path& partial) noexcept;
// Removes the partial files of a path that are abandoned.
void remove_abandoned(const std::filesystem::path& path) noexcept;

// Creates and locks a partial file; nullopt if one of this name exists. No other process will take it for abandoned.
std::optional<File> claim_partial(const std::string& partial);

// Writes a file next to `path`; publish() renames it, otherwise the destructor removes it. A link is followed. All
// functions throw Error.
class OutputFile {
 public:
  // Checks the path, removes abandoned partial files and creates this one.
  OutputFile(const std::string& path, bool overwrites, std::string remedy);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  File& file() { return *file_; }
  const std::string& path() const { return path_; }                  // after links
  const std::filesystem::path& partial() const { return partial_; }  // for writers that take a name
  void publish();                                                    // checks the path again

 private:
  std::string path_, remedy_;
  bool overwrites_;
  std::filesystem::path partial_;  // a path, because the destructor must not allocate one; empty: published
  std::optional<File> file_;
};

}  // namespace specdec
