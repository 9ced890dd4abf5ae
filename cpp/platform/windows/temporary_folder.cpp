// platform/temporary_folder.h on Windows.
#include "platform/temporary_folder.h"

#include <exception>
#include <string>
#include <system_error>

#include "base/error.h"
#include "platform/process.h"

namespace specdec {

TemporaryFolder::TemporaryFolder() {
  const std::string name = "specdec-" + std::to_string(process_id()) + "-";
  std::error_code error;
  for (int attempt = 0; !error; ++attempt) {
    path_ = std::filesystem::temp_directory_path() / (name + std::to_string(attempt));
    if (std::filesystem::create_directory(path_, error)) return;
  }
  throw Error(path_.string() + ": cannot be created: " + error.message() + "; name another folder (TMP=...)");
}

TemporaryFolder::~TemporaryFolder() {
  try {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  } catch (const std::exception&) {  // no memory: the folder stays
  }
}

}  // namespace specdec
