// A new folder that is removed, with all it holds, when its object ends.
#pragma once

#include <filesystem>

namespace specdec {

class TemporaryFolder {
 public:
  TemporaryFolder();  // where the system keeps temporary files (TMPDIR); throws Error
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace specdec
