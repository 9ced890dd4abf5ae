#include "bindings/request_handle.h"

#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "bindings/register.h"
#include "bindings/results.h"
#include "bindings/without_gil.h"
#include "engine/request_handle.h"

namespace py = pybind11;
using namespace py::literals;
using specdec::RequestHandle;

namespace {

constexpr std::chrono::milliseconds between_signal_checks{20};

// Numbers of the watched requests that have changed. The threads that run models add to it and never wait for Python; a
// Python thread takes the numbers.
class News {
 public:
  void add(std::uint64_t id) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed_.insert(id);
    }
    arrived_.notify_one();
  }

  // Returns an empty list after a while without news.
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

// Calls is_over() without the GIL until it is true. Ctrl-C raises the exception of Python's handler. progress: None, or
// called with the number of prompt tokens read and the number of all prompt tokens when the first number has changed.
template <class IsOver>
void wait_until(const RequestHandle& request, IsOver is_over, const py::object& progress = py::none()) {
  if (!request.is_in_its_process()) throw specdec::Error("this request was submitted before the process was forked");
  for (std::int64_t told = -1;;) {
    {
      const WithoutGil released;
      if (is_over()) return;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    const specdec::PromptProgress at = request.prompt_progress();
    if (progress.is_none() || at.read == told) continue;
    told = at.read;
    progress(at.read, at.all);
  }
}

}  // namespace

void register_request_handle(py::module_& m) {
  py::class_<News, std::shared_ptr<News>>(m, "News", "Which watched requests have changed.")
      .def(py::init())
      .def(
          "take",
          [](News& self) {
            const WithoutGil released;
            return self.take();
          },
          "Waits up to 20 ms for the numbers of watched requests that have changed.");

  py::class_<RequestHandle, std::shared_ptr<RequestHandle>>(m, "RequestHandle",
                                                            "A submitted request. Dropping it ends the request.")
      .def(
          "wait",
          [](const RequestHandle& self, std::size_t index) {
            wait_until(self, [&] { return self.wait_for(index, between_signal_checks); });
            return piece_to_python(self.piece(index));
          },
          "index"_a,
          "Waits for (token, text, draft_source, logprob, finish_reason, top_logprobs) of piece `index`; None if\n"
          "the request ends before it.")
      .def(
          "wait_for_end",
          [](const RequestHandle& self, const py::object& progress) {
            wait_until(self, [&] { return self.wait_for_end(between_signal_checks); }, progress);
          },
          "progress"_a = py::none(),
          "Waits for the end of the request. progress: called with the number of prompt tokens read and their\n"
          "total, when the first changes.")
      .def(
          "peek", [](const RequestHandle& self, std::size_t index) { return piece_to_python(self.piece(index)); },
          "index"_a, "Like wait(), but returns None if the piece does not exist yet.")
      .def("cancel", &RequestHandle::cancel, "Asks the request to end, without waiting for it.")
      .def(
          "watch",
          [](RequestHandle& self, const std::shared_ptr<News>& news, std::uint64_t number) {
            self.set_listener([news, number] { news->add(number); });
          },
          "news"_a, "number"_a, "After every new piece and at the end, news.take() returns `number`.")
      .def_property_readonly("done", &RequestHandle::is_done)
      .def_property_readonly(
          "error",
          [](const RequestHandle& self) { return self.error() ? exception_of(self.error()) : py::object(py::none()); },
          "The exception that ended the request early, or None.")
      .def(
          "prompt_score",
          [](const RequestHandle& self) {
            const std::shared_ptr<const specdec::Score> score = self.prompt_score();
            return score ? py::object(score_to_python(*score)) : py::object(py::none());
          },
          "(tokens, logprobs, most_likely, top_logprobs) of a scored prompt; all but tokens have an entry per token\n"
          "of tokens[1:]. None before the first piece or the end, and if no score was asked for.")
      .def("stats", [](const RequestHandle& self) { return stats_to_python(self.stats(), self.drafting()); })
      .def_property_readonly(
          "prompt_progress",
          [](const RequestHandle& self) {
            const specdec::PromptProgress progress = self.prompt_progress();
            return std::make_pair(progress.read, progress.all);
          },
          "(prompt tokens read so far, all prompt tokens).")
      .def_property_readonly("seed", &RequestHandle::seed)
      .def_property_readonly("verification",
                             [](const RequestHandle& self) { return specdec::name(self.verification()); });
}
