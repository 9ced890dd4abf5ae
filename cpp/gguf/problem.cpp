#include "gguf/problem.h"

#include "base/error.h"
#include "base/utf8.h"

namespace specdec {

void fail_file(const std::string& path, const std::string& problem, const std::string& remedy) {
  throw ModelError((path.empty() ? "(empty path)" : path) + ": " + problem + "; " + remedy);
}

std::string shown(const std::string& name) {
  constexpr std::size_t longest = 80;
  return "\"" + printable(name.substr(0, longest)) + (name.size() > longest ? "...\"" : "\"");
}

}  // namespace specdec
