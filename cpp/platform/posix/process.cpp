// platform/process.h on POSIX systems.
#include "platform/process.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "base/error.h"

extern char** environ;

namespace specdec {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(what + ": " + std::generic_category().message(error));
}

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Ignores errors: if the program ends early, its exit status tells.
void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace

std::uint64_t process_id() { return static_cast<std::uint64_t>(getpid()); }

bool is_running(std::uint64_t process) noexcept {
  if (process == 0 || process > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) return false;
  return kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM;
}

void run_this_thread_when_idle() noexcept {
#ifdef SCHED_IDLE
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);  // 0: on Linux, the thread rather than the process
#endif
}

int run_program(std::vector<std::string> command, const std::string& input) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) fail("cannot create a pipe", errno);
  FileActions actions;
  posix_spawn_file_actions_adddup2(actions.get(), pipe_ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addclose(actions.get(), pipe_ends[0]);
  posix_spawn_file_actions_addclose(actions.get(), pipe_ends[1]);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], actions.get(), nullptr, arguments.data(), environ);
  close(pipe_ends[0]);
  if (error == 0) write_all(pipe_ends[1], input);
  close(pipe_ends[1]);
  if (error != 0) fail("cannot run " + command[0], error);

  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace specdec
