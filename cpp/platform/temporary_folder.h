// A new folder that is removed, with its contents, when the object is destroyed.
#pragma once

#include <filesystem>

namespace specdec {

class TemporaryFolder {
 public:
  TemporaryFolder();  // in the system's folder for temporary files (TMPDIR); throws Error
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace specdec
