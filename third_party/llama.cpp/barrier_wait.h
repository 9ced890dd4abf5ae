// How a thread waits at ggml's barrier: it looks for a few microseconds, then sleeps until the last thread wakes it.
//
// ggml itself looks for ever. When another program holds one of the cores, the thread that looks keeps the other one from the
// very thread it waits for: measured with six other processes on 2 cores, a pass of the bundled target took 95 ms on average
// instead of 10 (0.5 when nothing else runs, either way). Linux only; elsewhere ggml's own loop stays.
#pragma once

#ifdef __linux__

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { specdec_looks = 2000 };  // about 20 microseconds
static _Atomic int specdec_sleepers;

// Called until *passed differs from `seen`, counting the calls.
static inline void specdec_barrier_wait(const _Atomic int* passed, int seen, int calls) {
  if (calls < specdec_looks) {
    ggml_thread_cpu_relax();
    return;
  }
  atomic_fetch_add(&specdec_sleepers, 1);
  syscall(SYS_futex, (const void*)passed, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);  // returns at once if it differs
  atomic_fetch_sub(&specdec_sleepers, 1);
}

// Called after *passed was changed.
static inline void specdec_barrier_wake(const _Atomic int* passed) {
  if (atomic_load(&specdec_sleepers) > 0) {
    syscall(SYS_futex, (const void*)passed, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
  }
}

#else

static inline void specdec_barrier_wait(const _Atomic int* passed, int seen, int calls) {
  (void)passed, (void)seen, (void)calls;
  ggml_thread_cpu_relax();
}
static inline void specdec_barrier_wake(const _Atomic int* passed) { (void)passed; }

#endif
