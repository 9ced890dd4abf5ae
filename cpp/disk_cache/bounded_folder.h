// A folder of limited total size for files that can be made again. The least recently used are removed first.
//
// Several processes may use it at once: a file is written under a temporary name (its own, then ".part" and perhaps
// more; platform/output_file.h) and renamed when it is complete. A file that another process removes meanwhile counts
// as missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace specdec {

// FOLDER or FOLDER:MIB, as users write it. A colon that no number follows is a part of the path.
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

  // Makes the folder if there is none, and removes the temporary files of processes that died while writing. Only files
  // with this extension are touched. Throws Error.
  BoundedFolder(std::string folder, std::uint64_t most_bytes, std::string extension);

  const std::string& path() const { return folder_; }
  std::filesystem::path path_of(const std::string& name) const { return std::filesystem::path(folder_) / name; }
  std::vector<File> files() const;
  void mark_used(const std::string& name) const noexcept;
  void remove(const std::string& name) const noexcept;

  // Removes files until this many bytes fit within the limit and leave a part of the disk free. Returns false if they
  // cannot fit; removes nothing if removing everything would not help.
  bool make_room(std::uint64_t bytes) const;

 private:
  std::vector<File> files_with(bool is_temporary) const;

  const std::string folder_, extension_;
  const std::uint64_t most_bytes_;
};

}  // namespace specdec
