// platform/interrupt.h on Windows, where Ctrl-C runs a function on a thread of its own.
#include "platform/interrupt.h"

#include <windows.h>

#include <atomic>

#include "platform/console.h"

namespace specdec {
namespace {

std::atomic<bool> seen{false};
std::atomic<bool> is_first_only{false};
HANDLE wake = nullptr;  // set by the first Ctrl-C, so that it ends a wait on any thread

BOOL WINAPI on_interrupt(DWORD event) {
  if (is_first_only && seen) return FALSE;  // ends the process
  seen = true;
  if (wake != nullptr) SetEvent(wake);
  // The process ends when this returns, or after some seconds; the command has that time to end cleanly.
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE);
  return TRUE;
}

void open_wake_event() {
  if (wake == nullptr) wake = CreateEventW(nullptr, TRUE, FALSE, nullptr);
}

}  // namespace

void catch_interrupt() {
  is_first_only = true;
  SetConsoleCtrlHandler(on_interrupt, TRUE);
}

void catch_interrupts() {
  open_wake_event();
  SetConsoleCtrlHandler(on_interrupt, TRUE);
}

void catch_terminations() {
  open_wake_event();
  catch_termination();
}

void catch_termination() { SetConsoleCtrlHandler(on_interrupt, TRUE); }

void release_terminations() { SetConsoleCtrlHandler(on_interrupt, FALSE); }

bool interrupted() { return seen; }
void interrupt() noexcept { GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0); }

void clear_interrupt() {
  seen = false;
  if (wake != nullptr) ResetEvent(wake);
}

bool wait_for_input() {
  HANDLE sources[] = {wake, GetStdHandle(STD_INPUT_HANDLE)};
  // Windows cannot wait for pipes and files; reading them waits.
  if (is_terminal(StandardStream::input) && !interrupted()) WaitForMultipleObjects(2, sources, FALSE, INFINITE);
  return !interrupted();
}

bool wait_for_interrupt(std::chrono::milliseconds longest) {
  if (!interrupted()) WaitForSingleObject(wake, static_cast<DWORD>(longest.count()));
  return interrupted();
}

}  // namespace specdec
