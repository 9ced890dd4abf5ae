// Prefixes in a folder (disk_cache/bounded_folder.h), for later processes and for others of the same model: one file
// each (engine/prefix_file.h), named after a hash of its keys and of its text.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "disk_cache/bounded_folder.h"
#include "engine/prefix_file.h"

namespace specdec {

class PrefixFolder {
 public:
  using Note = std::function<void(const std::string&)>;

  // Makes the folder if there is none. Prefixes with other keys are not found. note: called, on any thread, with what
  // could not be read or written. Throws Error.
  PrefixFolder(std::string folder, std::uint64_t most_bytes, std::string target_key, std::string draft_key, Note note);
  ~PrefixFolder();  // writes what is still waiting
  PrefixFolder(const PrefixFolder&) = delete;
  PrefixFolder& operator=(const PrefixFolder&) = delete;

  // The text of each prefix in the folder now, by file name; none if the file is of no use.
  const std::map<std::string, Text>& prefixes();
  // Nullopt if the file is gone, damaged or cannot be read now. The latter two are noted, and a damaged file is
  // removed.
  std::optional<PrefixFile> read(const std::string& name);
  // Writes the prefix, with the folder's keys, on another thread. Removes files with prefixes that it begins with.
  void write(PrefixFile prefix);
  bool has_waiting() const;  // a prefix that is still to be written

 private:
  std::string name_of(const Text& text) const;
  void tell(const char* what, const std::exception& error) const noexcept;
  void work();
  void write_now(const PrefixFile& prefix);

  const BoundedFolder folder_;
  const std::string target_key_, draft_key_, key_hash_;
  const Note note_;
  std::map<std::string, Text> prefixes_;

  mutable std::mutex mutex_;  // of the members below
  std::condition_variable changed_;
  std::deque<PrefixFile> waiting_;
  bool is_writing_ = false, is_ending_ = false;
  std::thread writer_;
};

}  // namespace specdec
