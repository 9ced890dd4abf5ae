#include "cli/interrupt.h"

#include <csignal>

namespace specdec::cli {
namespace {

volatile std::sig_atomic_t seen = 0;

extern "C" void on_interrupt(int) { seen = 1; }

}  // namespace

void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one finds the default action
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return seen != 0; }

}  // namespace specdec::cli
