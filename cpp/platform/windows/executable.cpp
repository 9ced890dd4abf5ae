// platform/executable.h on Windows.
#include "platform/executable.h"

#include <windows.h>

#include <string>

namespace specdec {

std::filesystem::path executable_path() {
  std::wstring path(32768, L'\0');  // the longest that Windows has
  path.resize(GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  return path;
}

}  // namespace specdec
