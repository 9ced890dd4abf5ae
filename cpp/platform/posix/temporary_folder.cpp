// platform/temporary_folder.h on POSIX systems.
#include "platform/temporary_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace specdec {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "specdec-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(name + ": cannot be created: " + std::generic_category().message(errno) + "; name another folder (TMPDIR=...)");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace specdec
