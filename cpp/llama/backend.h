// llama.cpp as a process-wide facility: start it once, keep what it says for our error messages.
#pragma once

#include <string>

namespace specdec {

// Starts llama.cpp and installs our kernels; must precede any model. Repeated calls do nothing.
void start_backend();

// What llama.cpp reported as errors on this thread since the last call, one line, for messages of our own.
std::string take_backend_errors();

// Physical cores that this process may run on: more threads than that only get in each other's way.
int default_threads();

}  // namespace specdec
