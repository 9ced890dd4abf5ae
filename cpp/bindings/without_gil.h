// Work without Python's GIL that the end of the interpreter waits for.
#pragma once

#include <pybind11/pybind11.h>

// Lets other Python threads run while it lives. A thread that asks for the lock back after the interpreter has ended is
// killed on the spot, through C++ frames that do not expect it. So from finish_work_without_gil() on, work on other
// threads is told to end and waited for, and those threads, which are daemons, sleep until the process is gone. The
// thread that ends the interpreter goes on as before: later exit handlers and __del__ methods may call.
class WithoutGil {
 public:
  WithoutGil();  // with the lock held
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Whether Python ends, and another thread ends it. May be asked without the lock.
bool this_thread_must_end();

// Called once, by the thread that ends the interpreter, with the lock held.
void finish_work_without_gil();

// Called in a forked process, which has only the thread that forked it: the end does not wait for the others.
void forget_other_threads();
