// Ctrl-C: the first asks the running command to end cleanly, a second one kills the program.
#pragma once

namespace specdec::cli {

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells expect

void catch_interrupt();
bool interrupted();

}  // namespace specdec::cli
