#include "cli/interrupt.h"

#include <sys/select.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace specdec::cli {
namespace {

volatile std::sig_atomic_t seen = 0;

extern "C" void on_interrupt(int) { seen = 1; }

void catch_signal(int number, int flags) {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

bool ignored(int number) {
  struct sigaction action = {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

void catch_interrupt() { catch_signal(SIGINT, static_cast<int>(SA_RESETHAND | SA_RESTART)); }

void catch_interrupts() { catch_signal(SIGINT, 0); }

void catch_termination() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!ignored(number)) catch_signal(number, 0);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() { return seen != 0; }
void clear_interrupt() { seen = 0; }

// One that came between a look at the flag and a read() would be seen only after the next line. So signals are let in while
// pselect() waits, and not between.
bool wait_for_input() {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  fd_set input;
  FD_ZERO(&input);
  FD_SET(STDIN_FILENO, &input);
  if (seen == 0) pselect(STDIN_FILENO + 1, &input, nullptr, nullptr, nullptr, &before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return seen == 0;
}

}  // namespace specdec::cli
