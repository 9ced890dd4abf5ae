#include "bindings/without_gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<bool> is_ending{false};
std::atomic<std::thread::id> ending_thread{};  // set before is_ending
std::atomic<int> num_running{0};
thread_local int num_running_here = 0;

// Decrements first: finish_work_without_gil() proceeds once the count is zero.
void leave() {
  --num_running;
  while (this_thread_must_end()) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

WithoutGil::WithoutGil() {
  ++num_running;
  ++num_running_here;
  thread_ = PyEval_SaveThread();
  if (this_thread_must_end()) leave();
}

WithoutGil::~WithoutGil() {
  if (this_thread_must_end()) leave();
  PyEval_RestoreThread(thread_);
  --num_running_here;
  --num_running;
}

bool this_thread_must_end() { return is_ending && std::this_thread::get_id() != ending_thread; }

void finish_work_without_gil() {
  ending_thread = std::this_thread::get_id();
  is_ending = true;
  PyThreadState* const thread = PyEval_SaveThread();
  while (num_running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

void forget_other_threads() { num_running = num_running_here; }
