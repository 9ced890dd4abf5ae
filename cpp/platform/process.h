// This process and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace specdec {

std::uint64_t process_id();  // of this process; differs in one that is forked from it

// The calling thread runs when no other wants its core, as far as the system can do that (Linux).
void run_this_thread_when_idle() noexcept;

// Runs a program found on PATH with `input` as its standard input, and waits for its end. Returns its exit status, 1
// when a signal ended it. Throws Error when it cannot be started.
int run_program(std::vector<std::string> command, const std::string& input);

}  // namespace specdec
