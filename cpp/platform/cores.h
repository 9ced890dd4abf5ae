// The processor cores that this process may use.
#pragma once

#include <filesystem>
#include <vector>

namespace specdec {

// Number of physical cores among these logical processors (Linux numbers). If a hybrid processor has performance cores
// among them, only those count: with slow cores all would wait for the slowest (bench/machines/uneven_cores.py). 0: the
// system tells nothing. `root`: where sys/ and proc/ lie; tests name another
// one.
int physical_cores(const std::vector<int>& processors, const std::filesystem::path& root = "/");

// Number of physical cores that this process may run on, of hybrid processors only performance cores.
int cores_of_this_process(const std::filesystem::path& root = "/");

// As many, but no more than its container's CPU quota, at least 1. More threads than this would compete with each
// other.
int default_threads(const std::filesystem::path& root = "/");

}  // namespace specdec
