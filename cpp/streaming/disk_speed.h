// How fast a file is read past the system's cache.
#pragma once

#include <string>

namespace specdec {

constexpr int num_readers = 4;  // threads that read at once: more gain nothing on the disks of laptops

// Bytes per second of a few dozen reads of 2 MiB, spread over the file. Throws Error.
double disk_speed(const std::string& path);

}  // namespace specdec
