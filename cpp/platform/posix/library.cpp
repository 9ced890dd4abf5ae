// platform/library.h on POSIX systems.
#include "platform/library.h"

#include <dlfcn.h>

namespace specdec {

void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

std::string library_problem() {
  const char* const problem = dlerror();
  return problem == nullptr ? "" : problem;
}

void* find_symbol(void* library, const char* name) { return dlsym(library, name); }

void close_library(void* library) { dlclose(library); }

std::vector<const char*> curl_names() {
  return {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib", "/usr/lib/libcurl.4.dylib"};
}

}  // namespace specdec
