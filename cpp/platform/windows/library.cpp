// platform/library.h on Windows.
#include "platform/library.h"

#include "platform/windows/utf16.h"

namespace specdec {

// A name without a folder is searched for next to the program and in the system's folder, not in the current folder.
// If a library that it needs is missing, such as Vulkan's, Windows would stop the program with a dialog.
void* open_library(const char* name) {
  DWORD before = 0;
  SetThreadErrorMode(SEM_FAILCRITICALERRORS, &before);
  const HMODULE library = LoadLibraryExW(to_utf16(name).c_str(), nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  const DWORD problem = GetLastError();
  SetThreadErrorMode(before, nullptr);
  SetLastError(problem);
  return reinterpret_cast<void*>(library);
}

std::string library_problem() { return system_message(GetLastError()); }

void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void close_library(void* library) { FreeLibrary(static_cast<HMODULE>(library)); }

std::vector<const char*> curl_names() { return {"libcurl-x64.dll"}; }

}  // namespace specdec
