// Where the running program lies.
#pragma once

#include <filesystem>

namespace specdec {

std::filesystem::path executable_path();  // empty where the system does not tell

}  // namespace specdec
