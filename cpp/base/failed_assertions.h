// Failed assertions inside llama.cpp: they end the process, or throw.
#pragma once

namespace specdec {

// During its lifetime, a failed assertion inside llama.cpp on this thread throws instead of ending the process;
// llama.cpp's loader turns it into a failed load. In a pass this holds only until its first operation, because
// the other threads would wait for this one.
class AbortsAsErrors {
 public:
  AbortsAsErrors() : before_(are_errors) { are_errors = true; }
  ~AbortsAsErrors() { are_errors = before_; }
  AbortsAsErrors(const AbortsAsErrors&) = delete;
  AbortsAsErrors& operator=(const AbortsAsErrors&) = delete;

  static bool is_active() { return are_errors; }
  static void suspend() { are_errors = false; }  // until the innermost of them ends

 private:
  inline static thread_local bool are_errors = false;
  bool before_;
};

}  // namespace specdec
