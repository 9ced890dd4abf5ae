// cores_of_this_process() of platform/cores.h on Windows.
#include "platform/cores.h"

#include <windows.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace specdec {

int cores_of_this_process(const std::filesystem::path&) {
  DWORD_PTR allowed = 0, all = 0;
  GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all);
  DWORD bytes = 0;
  GetLogicalProcessorInformationEx(RelationProcessorCore, nullptr, &bytes);
  std::vector<char> buffer(bytes);
  auto* const first = reinterpret_cast<SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(buffer.data());
  std::vector<int> classes;  // of the cores: performance cores have the highest
  if (bytes > 0 && GetLogicalProcessorInformationEx(RelationProcessorCore, first, &bytes) != 0) {
    for (std::size_t at = 0; at < bytes;) {
      const auto* const core = reinterpret_cast<const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX*>(buffer.data() + at);
      // The process's mask covers its own group of 64 processors; it is 0 if the process has threads in several groups.
      if (allowed == 0 || (core->Processor.GroupMask[0].Mask & allowed) != 0)
        classes.push_back(core->Processor.EfficiencyClass);
      at += core->Size;
    }
  }
  if (classes.empty()) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(
      std::count(classes.begin(), classes.end(), *std::max_element(classes.begin(), classes.end())));
}

std::string processor_name(const std::filesystem::path&) {
  const char* name = std::getenv("PROCESSOR_IDENTIFIER");
  return name == nullptr ? "unknown processor" : name;
}

}  // namespace specdec
