#include "base/json_depth.h"

#include <algorithm>
#include <cstddef>

namespace specdec {

int json_depth(std::string_view json) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    else if (in_string) i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    else if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace specdec
