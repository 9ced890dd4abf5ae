// Signals such as Ctrl-C ask the running command to end cleanly.
#pragma once

#include <chrono>

namespace specdec {

void catch_interrupt();   // the first Ctrl-C; a second one kills the program
void catch_interrupts();  // every Ctrl-C; ends wait_for_input()
// Every Ctrl-C, SIGTERM and SIGHUP: for commands that must remove temporary files. Signals that are ignored at the
// start (nohup) stay ignored. Exceeding a file size limit becomes an error of write().
void catch_termination();

// As catch_termination(); ends wait_for_interrupt(), too.
void catch_terminations();
void release_terminations();  // the next one kills the program

bool interrupted();         // since the start, or since it was cleared
void interrupt() noexcept;  // as a Ctrl-C does
void clear_interrupt();

// True when standard input has something to read, or is at its end; false when interrupted, however shortly before.
// After catch_interrupts().
bool wait_for_input();

// Waits for a signal that is caught, at most this long; the result is interrupted(). After catch_terminations().
bool wait_for_interrupt(std::chrono::milliseconds longest);

}  // namespace specdec
