#include "llama/backend.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "llama.h"
#include "llama/ggml_mxfp6.h"
#include "llama/huge_pages.h"
#include "llama/op_hook.h"

namespace specdec {
namespace {

thread_local std::string backend_errors;
thread_local bool aborts_are_errors = false;

// ggml calls this before it aborts the process, and says nothing itself; what is thrown leaves through its C code, which is compiled
// with -fexceptions.
void on_abort(const char* message) {
  if (aborts_are_errors) throw std::runtime_error(message);
  const std::string last_words = std::string(message) + "\n";
  if (write(STDERR_FILENO, last_words.data(), last_words.size()) < 0) return;  // nobody listens
}

void keep_errors(ggml_log_level level, const char* text, void*) {
  if (level != GGML_LOG_LEVEL_ERROR) return;
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (!backend_errors.empty()) backend_errors += "; ";
  backend_errors += line;
}

}  // namespace

void start_backend() {
  static std::once_flag once;
  std::call_once(once, [] {
    check_mxfp6_kernels();
    llama_log_set(keep_errors, nullptr);
    ggml_set_abort_callback(on_abort);
    llama_backend_init();
    install_op_hook();
    install_huge_pages();
  });
}

std::string take_backend_errors() {
  std::string errors;
  errors.swap(backend_errors);
  return errors;
}

AbortsAsErrors::AbortsAsErrors() { aborts_are_errors = true; }
AbortsAsErrors::~AbortsAsErrors() { aborts_are_errors = false; }

int default_threads() {
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
  if (sysctlbyname("hw.perflevel0.physicalcpu", &performance_cores, &size, nullptr, 0) == 0 && performance_cores > 0) return performance_cores;
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace specdec
