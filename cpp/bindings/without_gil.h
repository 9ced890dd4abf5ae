// Work without Python's GIL that the end of the interpreter waits for.
#pragma once

#include <pybind11/pybind11.h>

// Lets other Python threads run while it lives. Python immediately kills a thread that asks for the lock after the
// interpreter has ended, through C++ frames that do not expect it. So finish_work_without_gil() asks work on other
// threads to end and waits for it; from then on those threads, which are daemons, sleep until the process is gone. The
// thread that ends the interpreter continues as before: later exit handlers and __del__ methods may call the engine.
class WithoutGil {
 public:
  WithoutGil();  // with the lock held
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Whether Python is ending and another thread ends it. May be called without the lock.
bool this_thread_must_end();

// Called once, by the thread that ends the interpreter, with the lock held.
void finish_work_without_gil();

// Called in a forked process, which has only the thread that forked it: finish_work_without_gil() does not wait for the
// other threads.
void forget_other_threads();
