// platform/temporary_folder.h on POSIX systems.
#include "platform/temporary_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <system_error>

#include "base/error.h"

namespace specdec {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "specdec-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(name + ": cannot be created: " + std::generic_category().message(errno) +
                "; name another folder (TMPDIR=...)");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  try {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  } catch (const std::exception&) {  // no memory: the folder stays
  }
}

}  // namespace specdec
