// The paths of the running program and of this code in it.
#pragma once

#include <filesystem>

namespace specdec {

std::filesystem::path executable_path();  // empty if unknown
// The file that contains this code: the program, or a library that it has loaded (the extension module in Python).
std::filesystem::path code_path();  // empty if unknown

}  // namespace specdec
