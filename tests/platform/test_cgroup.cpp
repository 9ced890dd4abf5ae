// Limits of control groups, read from made-up trees of proc/ and sys/.
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <string>

#include "check.h"
#include "platform/cgroup.h"
#include "platform/memory.h"

using namespace specdec;
namespace fs = std::filesystem;

namespace {

class Tree {
 public:
  Tree() : root_(fs::temp_directory_path() / ("specdec-cgroup-" + std::to_string(getpid()))) { fs::remove_all(root_); }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Tree& add(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  CgroupLimits limits() const { return cgroup_limits(root_); }

 private:
  fs::path root_;
};

constexpr std::uint64_t mib = 1 << 20;
std::string bytes(std::uint64_t mebibytes) { return std::to_string(mebibytes * mib) + "\n"; }

}  // namespace

TEST(nothing_to_read_limits_nothing) {
  const CgroupLimits limits = Tree().limits();
  CHECK(limits.available_memory == CgroupLimits::no_limit);
  CHECK(std::isinf(limits.cpus));
}

TEST(version_2_in_a_container) {
  Tree tree;
  tree.add("proc/self/cgroup", "0::/\n")
      .add("sys/fs/cgroup/memory.max", bytes(512))
      .add("sys/fs/cgroup/memory.current", bytes(200));
  tree.add("sys/fs/cgroup/memory.stat", "anon 1\nfile 2\ninactive_file " + bytes(40) + "active_file " + bytes(10));
  tree.add("sys/fs/cgroup/cpu.max", "150000 100000\n");
  CHECK(tree.limits().available_memory == (512 - 200 + 50) * mib);
  CHECK(tree.limits().cpus == 1.5);
}

TEST(version_2_max_is_no_limit) {
  Tree tree;
  tree.add("proc/self/cgroup", "0::/\n")
      .add("sys/fs/cgroup/memory.max", "max\n")
      .add("sys/fs/cgroup/cpu.max", "max 100000\n");
  CHECK(tree.limits().available_memory == CgroupLimits::no_limit);
  CHECK(std::isinf(tree.limits().cpus));
}

TEST(the_tightest_group_on_the_way_up_counts) {
  Tree tree;
  tree.add("proc/self/cgroup", "0::/a.slice/b.service\n");
  tree.add("sys/fs/cgroup/a.slice/memory.max", bytes(100)).add("sys/fs/cgroup/a.slice/memory.current", bytes(30));
  tree.add("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n")
      .add("sys/fs/cgroup/a.slice/b.service/cpu.max", "400000 100000\n");
  tree.add("sys/fs/cgroup/a.slice/cpu.max", "200000 100000\n");
  CHECK(tree.limits().available_memory == 70 * mib);
  CHECK(tree.limits().cpus == 2.0);
}

TEST(version_1_by_controller) {
  Tree tree;
  tree.add("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");
  tree.add("sys/fs/cgroup/memory/memory.limit_in_bytes", bytes(256))
      .add("sys/fs/cgroup/memory/memory.usage_in_bytes", bytes(100));
  tree.add("sys/fs/cgroup/memory/memory.stat", "total_inactive_file " + bytes(20));
  tree.add("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
  tree.add("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK(tree.limits().available_memory == 176 * mib);  // the path is the host's: the mount is the group
  CHECK(tree.limits().cpus == 0.5);
}

TEST(version_1_without_limits) {
  Tree tree;
  tree.add("proc/self/cgroup", "5:memory:/\n4:cpu:/\n")
      .add("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.add("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n").add("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(tree.limits().available_memory == CgroupLimits::no_limit);
  CHECK(std::isinf(tree.limits().cpus));
}

TEST(more_used_than_allowed_leaves_nothing) {
  Tree tree;
  tree.add("proc/self/cgroup", "0::/\n")
      .add("sys/fs/cgroup/memory.max", bytes(10))
      .add("sys/fs/cgroup/memory.current", bytes(11));
  CHECK(tree.limits().available_memory == 0);
}

TEST(damaged_files_limit_nothing) {
  Tree tree;
  tree.add("proc/self/cgroup", "nonsense\n0::/\n::\n")
      .add("sys/fs/cgroup/memory.max", "")
      .add("sys/fs/cgroup/cpu.max", "x y");
  CHECK(tree.limits().available_memory == CgroupLimits::no_limit);
  CHECK(std::isinf(tree.limits().cpus));
}

TEST(this_process_has_memory) { CHECK(available_memory() > mib); }

TEST_MAIN()
