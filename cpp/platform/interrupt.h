// Signals such as Ctrl-C ask the running command to end cleanly.
#pragma once

#include <chrono>

namespace specdec {

void catch_interrupt();   // catches the first Ctrl-C; a second one kills the program
void catch_interrupts();  // catches every Ctrl-C, which ends wait_for_input()
// Catches every Ctrl-C, SIGTERM and SIGHUP, for commands that must remove temporary files. Signals that are ignored at
// the start (nohup) stay ignored. Exceeding a file size limit becomes an error of write().
void catch_termination();

// The same, and these signals end wait_for_interrupt().
void catch_terminations();
void release_terminations();  // the next signal kills the program

bool interrupted();         // since the start, or since it was cleared
void interrupt() noexcept;  // acts like a Ctrl-C
void clear_interrupt();

// Waits until standard input has something to read or is at its end (true), or until an interrupt, which may have come
// just before (false). Needs catch_interrupts().
bool wait_for_input();

// Waits at most this long for a caught signal; returns interrupted(). Needs catch_terminations().
bool wait_for_interrupt(std::chrono::milliseconds longest);

}  // namespace specdec
