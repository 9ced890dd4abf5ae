// platform/interrupt.h on POSIX systems.
#include "platform/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <system_error>

#include "base/error.h"

namespace specdec {
namespace {

volatile std::sig_atomic_t seen = 0;

// A pipe that the handler writes to, so that an interrupt that comes between checking `seen` and waiting also ends the
// wait, on any thread.
int wake[2] = {-1, -1};

extern "C" void on_interrupt(int) {
  seen = 1;
  const int before = errno;
  if (wake[1] >= 0 && write(wake[1], "", 1) < 0) errno = EAGAIN;  // a full pipe wakes the waiter anyway
  errno = before;
}

void catch_signal(int number, int flags) {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

void open_wake_pipe() {
  if (pipe(wake) != 0) throw Error("cannot create a pipe: " + std::generic_category().message(errno));
  for (const int end : wake) {
    fcntl(end, F_SETFL, O_NONBLOCK);
    fcntl(end, F_SETFD, FD_CLOEXEC);
  }
}

bool ignored(int number) {
  struct sigaction action = {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

void catch_interrupt() { catch_signal(SIGINT, static_cast<int>(SA_RESETHAND | SA_RESTART)); }

void catch_interrupts() {
  open_wake_pipe();
  catch_signal(SIGINT, 0);
}

void catch_terminations() {
  open_wake_pipe();
  catch_termination();
}

void catch_termination() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!ignored(number)) catch_signal(number, 0);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void release_terminations() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!ignored(number)) std::signal(number, SIG_DFL);
  }
}

bool interrupted() { return seen != 0; }
void interrupt() noexcept { raise(SIGINT); }
void clear_interrupt() {
  seen = 0;  // first, so that an interrupt during this function is not lost
  char bytes[64];
  while (wake[0] >= 0 && read(wake[0], bytes, sizeof bytes) > 0) {
  }
}

bool wait_for_input() {
  pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {wake[0], POLLIN, 0}};
  while (!interrupted() && poll(sources, 2, -1) < 0 && errno == EINTR) {
  }
  return !interrupted();
}

bool wait_for_interrupt(std::chrono::milliseconds longest) {
  pollfd source = {wake[0], POLLIN, 0};
  if (!interrupted()) poll(&source, 1, static_cast<int>(longest.count()));  // a signal ends the wait
  return interrupted();
}

}  // namespace specdec
