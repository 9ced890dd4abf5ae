#include "bindings/request_handle.h"

#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "bindings/register.h"
#include "bindings/results.h"
#include "bindings/without_gil.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

constexpr std::chrono::milliseconds between_signal_checks{20};

// Which watched requests have changed. The threads that run models add to it and never wait for Python; a thread of Python's takes it.
class News {
 public:
  void add(std::uint64_t id) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed_.insert(id);
    }
    arrived_.notify_one();
  }

  // Empty after a while without news.
  std::vector<std::uint64_t> take() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait_for(lock, between_signal_checks, [this] { return !changed_.empty(); });
    std::vector<std::uint64_t> taken(changed_.begin(), changed_.end());
    changed_.clear();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::set<std::uint64_t> changed_;
};

News& news() {
  static auto* const all = new News;  // never destroyed: threads may outlive the end of Python
  return *all;
}

}  // namespace

SharedRequest::~SharedRequest() {
  if (handle_ && process_ == specdec::process_id()) handle_->cancel();
}

std::optional<specdec::Piece> SharedRequest::wait(std::size_t index) const {
  if (process_ != specdec::process_id()) throw specdec::Error("this request was submitted before the process was forked");
  for (;;) {
    bool is_there = false;
    {
      const WithoutGil released;
      is_there = handle_->wait_for(index, between_signal_checks);
    }
    if (is_there) return handle_->piece(index);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

void SharedRequest::watch(std::uint64_t id) const {
  handle_->set_listener([id] { news().add(id); });
}

void register_request_handle(py::module_& m) {
  py::class_<SharedRequest>(m, "SharedRequest", "A submitted request. Dropping it ends the request.")
      .def(
          "wait", [](const SharedRequest& self, std::size_t index) { return piece_to_python(self.wait(index)); }, "index"_a,
          "Waits for (token, text, draft_source, logprob, finish_reason, top_logprobs) of piece `index`; None if the request ends before "
          "it.")
      .def(
          "peek", [](const SharedRequest& self, std::size_t index) { return piece_to_python(self.get().piece(index)); }, "index"_a,
          "As wait(), but None if the piece is not there yet.")
      .def("cancel", &SharedRequest::cancel, "Asks for the end of the request.")
      .def("watch", &SharedRequest::watch, "id"_a, "take_news() tells `id` after every new piece and at the end.")
      .def_property_readonly("done", [](const SharedRequest& self) { return self.get().is_done(); })
      .def_property_readonly(
          "error", [](const SharedRequest& self) { return self.get().error() ? exception_of(self.get().error()) : py::object(py::none()); },
          "What ended the request early; None: nothing so far.")
      .def(
          "prompt_score",
          [](const SharedRequest& self) {
            const std::shared_ptr<const specdec::Score> score = self.get().prompt_score();
            return score ? py::object(score_to_python(*score)) : py::object(py::none());
          },
          "The result of Generator.score() for the prompt, from the first piece or the end on; None before, or if not asked for.")
      .def("stats", [](const SharedRequest& self) { return stats_to_python(self.get().stats(), self.get().drafting()); })
      .def_property_readonly("seed", [](const SharedRequest& self) { return self.get().seed(); })
      .def_property_readonly("verification", [](const SharedRequest& self) { return specdec::name(self.get().verification()); });
  m.def(
      "take_news",
      [] {
        const WithoutGil released;
        return news().take();
      },
      "Waits up to 20 ms for the ids of watched requests that have changed.");
}
