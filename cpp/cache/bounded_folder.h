// A folder of files that can be made again, of a limited total size: those that were not used for the longest go first.
//
// Several processes may use it at once: a file is written under another name (".part" and what follows behind its own)
// and renamed when it is complete, and a file that another process removes meanwhile is one that is not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace specdec {

// FOLDER or FOLDER:MIB, as users write it. What follows a colon and is no number is a part of the path.
struct FolderLimit {
  std::string folder;
  std::uint64_t most_bytes;
};
FolderLimit parse_folder_limit(const std::string& text, std::uint64_t default_bytes);

class BoundedFolder {
 public:
  struct File {
    std::filesystem::path path;
    std::filesystem::file_time_type used;
    std::uint64_t bytes;
  };

  // Makes the folder if there is none, and removes what a process left that died while it wrote. extension: of all of
  // its files; others are not touched. Throws Error.
  BoundedFolder(std::string folder, std::uint64_t most_bytes, std::string extension);

  const std::string& path() const { return folder_; }
  std::filesystem::path path_of(const std::string& name) const { return std::filesystem::path(folder_) / name; }
  std::vector<File> files() const;
  void mark_used(const std::string& name) const noexcept;
  void remove(const std::string& name) const noexcept;

  // Removes files until these bytes have room within the limit, and a part of the disk stays free besides. False: they
  // have none; nothing is removed where removing all would not help.
  bool make_room(std::uint64_t bytes) const;

 private:
  std::vector<File> files_with(bool is_temporary) const;

  const std::string folder_, extension_;
  const std::uint64_t most_bytes_;
};

}  // namespace specdec
