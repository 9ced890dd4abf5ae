// The cores that threads are made for, read from made-up trees of sys/.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "platform/cores.h"

using namespace specdec;
namespace fs = std::filesystem;

namespace {

// Logical processors 0, 1, ... in cores of `siblings` each; `capacity`: as Linux tells it on ARM, empty where it does
// not.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / ("specdec-cores-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Machine& add(int cores, int siblings, const std::string& capacity = "") {
    for (int core = 0; core < cores; ++core) {
      const int first = count_, last = count_ + siblings - 1;
      for (; count_ <= last; ++count_) {
        const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(count_);
        write(folder + "/topology/thread_siblings_list",
              siblings == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last));
        if (!capacity.empty()) write(folder + "/cpu_capacity", capacity);
      }
    }
    return *this;
  }
  Machine& write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
    return *this;
  }
  int cores(std::vector<int> allowed = {}) const {
    if (allowed.empty()) {
      for (int processor = 0; processor < count_; ++processor) allowed.push_back(processor);
    }
    return physical_cores(allowed, root_);
  }
  int threads() const { return default_threads(root_); }

 private:
  fs::path root_;
  int count_ = 0;
};

}  // namespace

TEST(a_system_that_tells_nothing) { CHECK(Machine().cores({0, 1, 2}) == 0); }

TEST(hyper_threads_are_one_core) {
  Machine machine;
  machine.add(4, 2);
  CHECK(machine.cores() == 4);
  CHECK(machine.cores({0, 2, 3}) == 2);  // affinity
}

TEST(intel_hybrid_processors) {
  Machine machine;
  machine.add(8, 2).add(16, 1).write("sys/devices/cpu_core/cpus", "0-15").write("sys/devices/cpu_atom/cpus", "16-31");
  CHECK(machine.cores() == 8);
  CHECK(machine.cores({14, 15, 16, 17}) == 1);
  CHECK(machine.cores({16, 17, 18}) == 3);  // only efficiency cores are allowed
}

TEST(a_list_with_gaps) {
  Machine machine;
  machine.add(6, 1).write("sys/devices/cpu_core/cpus", "0,2-3,5");
  CHECK(machine.cores() == 4);
}

TEST(arm_processors_of_two_and_three_kinds_of_cores) {
  Machine two;
  two.add(4, 1, "414").add(4, 1, "1024");
  CHECK(two.cores() == 4);
  CHECK(two.cores({0, 1, 2}) == 3);
  Machine three;
  three.add(4, 1, "290").add(3, 1, "870").add(1, 1, "1024");
  CHECK(three.cores() == 4);
}

// The processors are those that this process may really use, in a made-up tree: any container with any quota is as
// good.
TEST(no_more_threads_than_a_container_may_run) {
  const auto quota = [](const std::string& cpu_max) {
    Machine machine;
    machine.add(1024, 1).write("proc/self/cgroup", "0::/").write("sys/fs/cgroup/cpu.max", cpu_max);
    return machine.threads();
  };
  Machine unlimited;
  unlimited.add(1024, 1);
  const int cores = unlimited.threads();
  CHECK(cores >= 1);
  CHECK(quota("max 100000") == cores);
  CHECK(quota("100000 100000") == 1);
  CHECK(quota("25000 100000") == 1);  // less than one still runs one thread
  CHECK(quota(std::to_string(cores * 50000) + " 50000") == cores);
  CHECK(quota(std::to_string(cores * 50000 - 1) + " 50000") == std::max(1, cores - 1));
  CHECK(quota(std::to_string((cores + 3) * 50000) + " 50000") == cores);
  CHECK(default_threads() >= 1);
}

TEST_MAIN()
