// llama.cpp as a process-wide facility: start it once, keep what it says for our error messages.
#pragma once

#include <string>

namespace specdec {

// Starts llama.cpp and installs our kernels; must precede any model. Repeated calls do nothing.
void start_backend();

// What llama.cpp reported as errors on this thread since the last call, one line, for messages of our own.
std::string take_backend_errors();

// While one lives, an assertion that fails inside llama.cpp on this thread is an exception instead of the end of the process;
// llama.cpp turns it into a load that failed. For loading only: on other threads, or later, nothing would catch it.
class AbortsAsErrors {
 public:
  AbortsAsErrors();
  ~AbortsAsErrors();
  AbortsAsErrors(const AbortsAsErrors&) = delete;
  AbortsAsErrors& operator=(const AbortsAsErrors&) = delete;
};

}  // namespace specdec
