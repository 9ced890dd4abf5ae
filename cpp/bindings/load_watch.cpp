#include "bindings/load_watch.h"

#include <utility>

#include "bindings/without_gil.h"

namespace py = pybind11;

namespace {

thread_local LoadWatch* current = nullptr;

}  // namespace

LoadWatch::LoadWatch(py::function tell) : tell_(std::move(tell)), outer_(std::exchange(current, this)) {}
LoadWatch::~LoadWatch() { current = outer_; }

bool LoadWatch::operator()(const specdec::LoadProgress& at) {
  const bool is_new = at.step != step_;
  step_ = at.step;
  return tick(at, is_new || at.share >= 1.0);
}

void LoadWatch::logged() {
  if (current != nullptr) current->tick({"", 0.0}, false);
}

bool LoadWatch::tick(const specdec::LoadProgress& at, bool is_due) {
  if (has_failed_ || this_thread_must_end()) return false;
  const Clock::time_point now = Clock::now();
  if (!is_due && now - last_ < std::chrono::milliseconds(50)) return true;
  last_ = now;
  const py::gil_scoped_acquire gil;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    tell_(at.step, at.share);
  } catch (py::error_already_set& error) {
    error.restore();
    has_failed_ = true;
  }
  return !has_failed_;
}

void LoadWatch::check() const {
  if (has_failed_ && PyErr_Occurred() != nullptr) throw py::error_already_set();
}
