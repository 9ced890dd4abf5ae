// platform/truncated_files.h on POSIX systems.
#include "platform/truncated_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace specdec {
namespace {

int exit_code = 1;
std::atomic_flag is_reporting = ATOMIC_FLAG_INIT;

// The code below runs in the signal handler, on any thread: it uses only system calls that POSIX allows there,
// allocates nothing and takes no locks.

// Reads the hexadecimal number at `at` and moves `at` past it.
std::uintptr_t read_number(const char*& at) {
  std::uintptr_t number = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') number = number * 16 + static_cast<std::uintptr_t>(*at - '0');
    else if (*at >= 'a' && *at <= 'f') number = number * 16 + static_cast<std::uintptr_t>(*at - 'a' + 10);
    else return number;
  }
}

// The path in a line of /proc/self/maps, "BEGIN-END rw-s OFFSET DEVICE INODE /PATH" (s: shared), if the line is a
// shared mapping that contains the address; otherwise null.
char* path_of(char* line, std::uintptr_t address) {
  const char* at = line;
  const std::uintptr_t begin = read_number(at);
  if (*at++ != '-') return nullptr;
  const std::uintptr_t end = read_number(at);
  if (address < begin || address >= end || std::strlen(at) < 6 || at[4] != 's') return nullptr;
  return std::strchr(line, '/');
}

// The lines of a file without line ends; what does not fit into the buffer is cut off.
class Lines {
 public:
  explicit Lines(const char* path) : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (file_ >= 0) close(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // Returns false at the end.
  template <std::size_t size>
  bool next(char (&line)[size]) {
    std::size_t length = 0;
    for (;;) {
      if (at_ == filled_ && !fill()) return false;
      const char c = buffer_[at_++];
      if (c == '\n') break;
      if (length + 1 < size) line[length++] = c;
    }
    line[length] = '\0';
    return true;
  }

 private:
  bool fill() {
    ssize_t count;
    do count = file_ < 0 ? 0 : read(file_, buffer_, sizeof buffer_);
    while (count < 0 && errno == EINTR);
    at_ = 0;
    filled_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    return filled_ > 0;
  }

  int file_;
  char buffer_[2048];
  std::size_t at_ = 0, filled_ = 0;
};

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

extern "C" void on_bus_error(int number, siginfo_t* info, void*) {
  char line[4096 + 128];  // the longest path and the fields before it
  char* path = nullptr;
  Lines mappings("/proc/self/maps");
  const bool is_fault = info->si_code > 0;  // rather than sent by kill()
  while (is_fault && path == nullptr && mappings.next(line))
    path = path_of(line, reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (path == nullptr) {
    std::signal(number, SIG_DFL);
    raise(number);  // delivered when the handler returns
    return;
  }
  while (is_reporting.test_and_set()) pause();  // another thread is about to end the process
  for (char* c = path; *c != '\0'; ++c) {
    if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f)
      // Control characters must not reach the terminal.
      *c = '?';
  }
  say("specdec: ");
  say(path);
  say(": cannot be read any more: it was truncated while in use, or its disk fails; do not change model files while "
      "they are in use\n");
  _exit(exit_code);
}

}  // namespace

void report_truncated_files(int code) {
  exit_code = code;
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace specdec
