// cores_of_this_process() of platform/cores.h on POSIX systems.
#include "platform/cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace specdec {

int cores_of_this_process(const std::filesystem::path& root) {
#if defined(__linux__)
  cpu_set_t allowed;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
    }
  }
  if (const int cores = physical_cores(processors, root); cores > 0) return cores;
#elif defined(__APPLE__)
  int performance_cores = 0;
  std::size_t size = sizeof(performance_cores);
  if (sysctlbyname("hw.perflevel0.physicalcpu", &performance_cores, &size, nullptr, 0) == 0 && performance_cores > 0)
    return performance_cores;
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Linux names the processor for each of its cores; on ARM, where it does not, it may name the machine.
std::string processor_name(const std::filesystem::path& root) {
#ifdef __APPLE__
  char name[256] = {};
  std::size_t size = sizeof name - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 && name[0] != 0) return name;
#endif
  for (const char* key : {"model name", "Model"}) {
    std::ifstream file(root / "proc" / "cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const std::size_t colon = line.find(": ");
      if (line.compare(0, std::string(key).size(), key) == 0 && colon != std::string::npos)
        return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

}  // namespace specdec
