// The nesting depth of JSON text, to be checked before parsing: parsers and writers recurse.
#pragma once

#include <string_view>

namespace specdec {

// 1 for a list of numbers; meaningless for text that is not JSON.
int json_depth(std::string_view json);

}  // namespace specdec
