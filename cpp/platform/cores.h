// The processor cores that this process may use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace specdec {

// Number of physical cores among these logical processors (Linux numbers). On a hybrid processor only performance cores
// count, if there are any among them: otherwise all cores would wait for the slowest (bench/CLOSED.md).
// 0 if the system does not tell. `root`: the folder with sys/ and proc/, which tests change.
int physical_cores(const std::vector<int>& processors, const std::filesystem::path& root = "/");

// Number of physical cores that this process may run on; on hybrid processors only performance cores.
int cores_of_this_process(const std::filesystem::path& root = "/");

// The same, but at most the container's CPU quota and at least 1. More threads would compete with each other.
int default_threads(const std::filesystem::path& root = "/");

// What the system calls the processor: "Intel(R) Core(TM) i5-1135G7 @ 2.40GHz"; "unknown processor" if it does not
// tell.
std::string processor_name(const std::filesystem::path& root = "/");

}  // namespace specdec
