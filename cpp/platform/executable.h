// The path of the running program.
#pragma once

#include <filesystem>

namespace specdec {

std::filesystem::path executable_path();  // empty if unknown

}  // namespace specdec
