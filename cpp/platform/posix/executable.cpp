// platform/executable.h on POSIX systems.
#include "platform/executable.h"

#include <climits>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace specdec {

std::filesystem::path executable_path() {
#ifdef __APPLE__
  char path[PATH_MAX];
  uint32_t size = sizeof path;
  return _NSGetExecutablePath(path, &size) == 0 ? std::filesystem::path(path) : std::filesystem::path();
#else
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
#endif
}

}  // namespace specdec
