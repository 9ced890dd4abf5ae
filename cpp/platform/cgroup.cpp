#include "platform/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The number that is a file's first word; nullopt for "max" and anything else that is not a number.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream stream(file);
  double value = 0.0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

// The value of the line "key value".
std::uint64_t entry(const fs::path& file, const std::string& wanted) {
  std::ifstream stream(file);
  std::string key;
  for (std::uint64_t value = 0; stream >> key >> value;) {
    if (key == wanted) return value;
  }
  return 0;
}

// `group` and all groups above it, as folders below `mount`. In a container the path may be the host's and not exist;
// then the mount itself is the group.
std::vector<fs::path> folders(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> found;
  std::error_code ignored;
  fs::path inner = fs::path(group).relative_path();
  for (; !inner.empty(); inner = inner.parent_path()) {
    if (fs::is_directory(mount / inner, ignored)) found.push_back(mount / inner);
  }
  found.push_back(mount);
  return found;
}

void limit_memory(CgroupLimits& limits, std::optional<double> limit, std::optional<double> used,
                  std::uint64_t reclaimable) {
  constexpr double unlimited = 0x1p60;  // version 1 writes a huge number for "no limit"
  if (!limit || *limit < 0.0 || *limit >= unlimited) return;
  const double taken = std::max(0.0, used.value_or(0.0) - static_cast<double>(reclaimable));
  limits.available_memory =
      std::min(limits.available_memory, static_cast<std::uint64_t>(std::max(0.0, *limit - taken)));
}

void limit_cpus(CgroupLimits& limits, std::optional<double> quota, std::optional<double> period) {
  if (quota && period && *quota > 0.0 && *period > 0.0) limits.cpus = std::min(limits.cpus, *quota / *period);
}

void read_version_2(CgroupLimits& limits, const fs::path& folder) {
  limit_memory(limits, number_in(folder / "memory.max"), number_in(folder / "memory.current"),
               entry(folder / "memory.stat", "inactive_file") + entry(folder / "memory.stat", "active_file"));
  std::ifstream stream(folder / "cpu.max");  // "200000 100000": microseconds per period, and the period; or "max
                                             // 100000"
  double quota = 0.0, period = 0.0;
  if (stream >> quota >> period) limit_cpus(limits, quota, period);
}

void read_version_1_memory(CgroupLimits& limits, const fs::path& folder) {
  limit_memory(
      limits, number_in(folder / "memory.limit_in_bytes"), number_in(folder / "memory.usage_in_bytes"),
      entry(folder / "memory.stat", "total_inactive_file") + entry(folder / "memory.stat", "total_active_file"));
}

void read_version_1_cpu(CgroupLimits& limits, const fs::path& folder) {
  limit_cpus(limits, number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us"));
}

bool lists(const std::string& controllers, const std::string& wanted) {
  std::istringstream stream(controllers);
  for (std::string one; std::getline(stream, one, ',');) {
    if (one == wanted) return true;
  }
  return false;
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  // "ID:CONTROLLERS:PATH"; version 2 has an empty CONTROLLERS.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& folder : folders(mount, group)) read_version_2(limits, folder);
    } else if (lists(controllers, "memory")) {
      for (const fs::path& folder : folders(mount / "memory", group)) read_version_1_memory(limits, folder);
    } else if (lists(controllers, "cpu")) {
      for (const fs::path& folder : folders(mount / controllers, group)) read_version_1_cpu(limits, folder);
      for (const fs::path& folder : folders(mount / "cpu", group)) read_version_1_cpu(limits, folder);
    }
  }
  return limits;
}

}  // namespace specdec
