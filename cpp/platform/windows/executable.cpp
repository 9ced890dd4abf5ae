// platform/executable.h on Windows.
#include "platform/executable.h"

#include <windows.h>

#include <string>

namespace specdec {

namespace {

std::filesystem::path path_of(HMODULE module) {
  std::wstring path(32768, L'\0');  // the longest path on Windows
  path.resize(GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
  return path;
}

}  // namespace

std::filesystem::path executable_path() { return path_of(nullptr); }

std::filesystem::path code_path() {
  HMODULE module = nullptr;
  constexpr DWORD by_address = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  GetModuleHandleExW(by_address, reinterpret_cast<LPCWSTR>(&code_path), &module);
  return path_of(module);
}

}  // namespace specdec
