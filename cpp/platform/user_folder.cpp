#include "platform/user_folder.h"

#include <cstdlib>

namespace specdec {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string user_folder(const char* variable, const char* below_home) {
  const std::string given = environment(variable), home = environment("HOME");
  if (!given.empty() && given.front() == '/') return given + "/specdec";
  return home.empty() ? "" : home + below_home + "/specdec";
}

}  // namespace

std::string user_cache_folder() { return user_folder("XDG_CACHE_HOME", "/.cache"); }
std::string user_state_folder() { return user_folder("XDG_STATE_HOME", "/.local/state"); }

}  // namespace specdec
