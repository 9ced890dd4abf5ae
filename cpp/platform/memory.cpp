#include "platform/memory.h"

#include <fstream>
#include <string>

namespace specdec {

std::uint64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kibibytes = 0;
  for (std::string rest; meminfo >> key >> kibibytes; std::getline(meminfo, rest)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace specdec
