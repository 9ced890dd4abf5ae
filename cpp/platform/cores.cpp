#include "platform/cores.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "platform/cgroup.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The first line of a file; empty if there is none.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "0-3,8" as {0, 1, 2, 3, 8}.
std::set<int> numbers_in(const std::string& list) {
  std::set<int> found;
  std::istringstream stream(list);
  for (int first = 0; stream >> first; stream.ignore()) {
    int last = first;
    if (stream.peek() == '-') {
      stream.ignore();
      stream >> last;
    }
    for (int number = first; number <= last; ++number) found.insert(number);
  }
  return found;
}

// The processors that are not much slower than the fastest of them. For Intel's processors, Linux lists the performance
// cores. For ARM's, it states a speed for each, 1024 for the fastest; on processors with three kinds of cores, most
// fast ones are well below that.
std::vector<int> performance_cores(const std::vector<int>& processors, const fs::path& devices) {
  const std::set<int> listed = numbers_in(line_of(devices / "cpu_core/cpus"));
  std::vector<int> capacities;
  for (const int processor : processors) {
    const std::set<int> capacity =
        numbers_in(line_of(devices / "system/cpu" / ("cpu" + std::to_string(processor)) / "cpu_capacity"));
    if (!listed.empty()) capacities.push_back(listed.count(processor) != 0 ? 1024 : 512);
    else capacities.push_back(capacity.empty() ? 1024 : *capacity.begin());
  }
  std::vector<int> found;
  for (std::size_t i = 0; i < processors.size(); ++i) {
    if (3 * capacities[i] >= 2 * *std::max_element(capacities.begin(), capacities.end()))
      found.push_back(processors[i]);
  }
  return found;
}

}  // namespace

int physical_cores(const std::vector<int>& processors, const fs::path& root) {
  const fs::path devices = root / "sys/devices";
  std::set<std::string> cores;  // one entry per set of sibling hyper-threads
  for (const int processor : performance_cores(processors, devices)) {
    const std::string core =
        line_of(devices / "system/cpu" / ("cpu" + std::to_string(processor)) / "topology/thread_siblings_list");
    if (!core.empty()) cores.insert(core);
  }
  return static_cast<int>(cores.size());
}

int default_threads(const fs::path& root) {
  const double quota = cgroup_limits(root).cpus;
  const int cores = cores_of_this_process(root);
  return quota < cores ? std::max(1, static_cast<int>(quota)) : cores;
}

}  // namespace specdec
