#include "bindings/without_gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<bool> is_ending{false};
std::atomic<int> num_running{0};

// What waits for work to end goes on as soon as none is left: so this one counts itself out last.
void leave() {
  --num_running;
  while (is_ending) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

WithoutGil::WithoutGil() {
  ++num_running;
  thread_ = PyEval_SaveThread();
  if (is_ending) leave();
}

WithoutGil::~WithoutGil() {
  if (is_ending) leave();
  PyEval_RestoreThread(thread_);
  --num_running;
}

bool python_is_ending() { return is_ending; }

void finish_work_without_gil() {
  is_ending = true;
  PyThreadState* const thread = PyEval_SaveThread();
  while (num_running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}
