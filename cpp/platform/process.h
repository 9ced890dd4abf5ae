// This process and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace specdec {

std::uint64_t process_id();                       // of this process; a forked process has another
bool is_running(std::uint64_t process) noexcept;  // whether a process has this number

// Makes the calling thread run only when no other wants its core, if the system supports this (Linux).
void run_this_thread_when_idle() noexcept;

// Runs a program found on PATH with `input` as its standard input and waits for its end. Returns its exit status, or 1
// if a signal ended it. Throws Error if it cannot be started.
int run_program(std::vector<std::string> command, const std::string& input);

}  // namespace specdec
