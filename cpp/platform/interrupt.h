// Signals such as Ctrl-C ask the running command to end cleanly.
#pragma once

namespace specdec {

void catch_interrupt();   // the first Ctrl-C; a second one kills the program
void catch_interrupts();  // every Ctrl-C; ends wait_for_input()
// Every Ctrl-C, SIGTERM and SIGHUP: for commands that must remove temporary files. Signals that are ignored at the start (nohup)
// stay ignored. Exceeding a file size limit becomes an error of write().
void catch_termination();

bool interrupted();  // since the start, or since it was cleared
void clear_interrupt();

// True when standard input has something to read, or is at its end; false when interrupted, however shortly before. After
// catch_interrupts().
bool wait_for_input();

}  // namespace specdec
