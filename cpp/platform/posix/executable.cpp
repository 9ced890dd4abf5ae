// platform/executable.h on POSIX systems.
#include "platform/executable.h"

#include <dlfcn.h>

#include <climits>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace specdec {

std::filesystem::path executable_path() {
  std::error_code ignored;
#ifdef __APPLE__
  char path[PATH_MAX];
  uint32_t size = sizeof path;
  if (_NSGetExecutablePath(path, &size) != 0) return {};
  return std::filesystem::canonical(path, ignored);  // the path may be relative or a link to the program
#else
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
#endif
}

std::filesystem::path code_path() {
  Dl_info found;
  if (dladdr(reinterpret_cast<void*>(&code_path), &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::canonical(found.dli_fname, ignored);
  return path.empty() ? executable_path() : path;  // for a program found by PATH, only the name is known
}

}  // namespace specdec
