// Work without Python's GIL that the end of the interpreter waits for.
#pragma once

#include <pybind11/pybind11.h>

// Lets other Python threads run while it lives. A thread that asks for the lock back after the interpreter has ended is ended on
// the spot, through C++ frames that do not expect it. So from finish_work_without_gil() on what runs is told to end and waited
// for, and its threads, which are daemons, sleep until the process is gone.
class WithoutGil {
 public:
  WithoutGil();  // with the lock held
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Whether Python ends. May be asked without the lock.
bool python_is_ending();

void finish_work_without_gil();
