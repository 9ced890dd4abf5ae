// Ctrl-C and the like: a signal asks the running command to end cleanly.
#pragma once

namespace specdec {

void catch_interrupt();   // Ctrl-C; a second one kills the program
void catch_interrupts();  // every Ctrl-C; ends wait_for_input()
// Ctrl-C, SIGTERM and SIGHUP, however often they come: for commands that leave nothing behind. A signal that the caller
// ignores (nohup) stays ignored. A file size limit becomes an error of write().
void catch_termination();

bool interrupted();  // since the start, or since it was cleared
void clear_interrupt();

// True when `descriptor` has something to read, or is at its end; false when interrupted, however shortly before. After
// catch_interrupts().
bool wait_for_input(int descriptor);

}  // namespace specdec
