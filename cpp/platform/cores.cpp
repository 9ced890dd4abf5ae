#include "platform/cores.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "platform/cgroup.h"

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

namespace specdec {

namespace {

int physical_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  std::set<std::string> cores;  // one entry per set of sibling hyper-threads
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
      std::string core;
      if (std::getline(siblings, core)) cores.insert(core);
    }
  }
  if (!cores.empty()) return static_cast<int>(cores.size());
#elif defined(__APPLE__)
  int performance_cores = 0;
  std::size_t size = sizeof(performance_cores);
  if (sysctlbyname("hw.perflevel0.physicalcpu", &performance_cores, &size, nullptr, 0) == 0 && performance_cores > 0)
    return performance_cores;
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int default_threads() {
  const double quota = cgroup_limits().cpus;
  const int cores = physical_cores();
  return quota < cores ? std::max(1, static_cast<int>(quota)) : cores;
}

}  // namespace specdec
