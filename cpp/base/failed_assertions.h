// Whether a failed assertion inside llama.cpp ends the process or throws.
#pragma once

namespace specdec {

// During its lifetime, a failed assertion inside llama.cpp on this thread throws instead of ending the process;
// llama.cpp's loader turns it into a failed load. In a pass this holds only until its first operation, because
// the other threads would wait for this one.
class AbortsAsErrors {
 public:
  AbortsAsErrors() : before_(are_errors) {
    are_errors = true;
    ++depth;
  }
  ~AbortsAsErrors() {
    are_errors = before_;
    --depth;
  }
  AbortsAsErrors(const AbortsAsErrors&) = delete;
  AbortsAsErrors& operator=(const AbortsAsErrors&) = delete;

  static bool is_active() { return are_errors; }
  static void suspend() { are_errors = false; }  // until the innermost AbortsAsErrors ends
  // Whether this thread has one, suspended or not. For code that no other thread waits for.
  static bool exists() { return depth > 0; }

 private:
  inline static thread_local bool are_errors = false;
  inline static thread_local int depth = 0;
  bool before_;
};

}  // namespace specdec
