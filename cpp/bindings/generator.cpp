// Generator for Python: convert, validate, release the GIL, call.
#include "engine/generator.h"

#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <chrono>
#include <mutex>

#include "bindings/register.h"
#include "engine/bundled_models.h"
#include "speculative/error.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

using specdec::Generator;
using specdec::Piece;

// True when a Python signal handler raised (Ctrl-C): looked for at most every 20 ms, on the thread that generates.
class InterruptCheck {
 public:
  bool operator()() {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(20)) return false;
    last_ = now;
    py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;  // leaves KeyboardInterrupt set; raised in interruptible()
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

// A Generator that one thread may use at a time: a second one gets an error instead of a crash.
class GuardedGenerator {
 public:
  explicit GuardedGenerator(const specdec::GeneratorOptions& options) : generator_(options) { generator_.set_cancel_check(InterruptCheck()); }

  // Runs body(generator) without the GIL.
  template <class Body>
  auto run(Body body) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) throw specdec::Error("this Generator is running in another thread; use one Generator per thread");
    try {
      py::gil_scoped_release release;
      return body(generator_);
    } catch (const specdec::Cancelled&) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();  // KeyboardInterrupt, or what the handler raised
      throw;
    }
  }

  const Generator& get() const { return generator_; }

 private:
  Generator generator_;
  std::mutex mutex_;
};

py::object piece_to_python(const std::optional<Piece>& piece) {
  if (!piece) return py::none();
  const py::object reason = piece->finish_reason ? py::object(py::str(specdec::name(*piece->finish_reason))) : py::object(py::none());
  return py::make_tuple(piece->token, py::str(piece->text), piece->from_draft, piece->logprob, reason);
}

py::typing::Dict<py::str, py::object> stats_to_python(const specdec::Stats& s) {
  return py::dict("prompt_tokens"_a = s.prompt_tokens, "prompt_cached_tokens"_a = s.prompt_cached_tokens,
                  "prompt_seconds"_a = s.prompt_seconds, "tokens"_a = s.tokens, "drafted"_a = s.drafted, "accepted"_a = s.accepted, "draft_calls"_a = s.draft_calls,
                  "target_calls"_a = s.target_calls, "draft_seconds"_a = s.draft_seconds, "target_seconds"_a = s.target_seconds,
                  "sampling_seconds"_a = s.sampling_seconds, "seconds"_a = s.seconds);
}

py::object event_to_python(const std::optional<specdec::Event>& event) {
  if (!event) return py::none();
  const specdec::Text& text = *event->text;
  const py::object error = text.has_failed() ? py::object(text_from_bytes(text.error_message())) : py::object(py::none());
  const py::object stats = event->is_last() ? py::object(stats_to_python(text.sequence().stats)) : py::object(py::none());
  const char* verification = specdec::name(text.verification());
  return py::make_tuple(text.id(), text.seed(), verification, piece_to_python(event->piece), error, stats);
}

// The arguments of a text, in Python's types.
template <class Return, class Call>
auto with_request(Call call) {
  return [call](GuardedGenerator& self, std::variant<std::string, std::vector<specdec::Token>> prompt,
                specdec::sampling::SamplingParams sampling, std::vector<std::string> stop, std::optional<std::uint64_t> seed,
                std::optional<int> num_draft_tokens, int max_tokens, const std::string& verification, const std::string& drafting) -> Return {
    specdec::Request request;
    if (auto* text = std::get_if<std::string>(&prompt)) request.prompt = std::move(*text);
    else request.prompt_tokens = std::move(std::get<std::vector<specdec::Token>>(prompt));
    request.sampling = std::move(sampling);
    request.stop = std::move(stop);
    request.seed = seed;
    request.num_draft_tokens = num_draft_tokens;
    request.max_tokens = max_tokens;
    request.verification = specdec::verification_named(verification);
    request.drafting = specdec::drafting_named(drafting);
    return self.run([&](Generator& generator) { return call(generator, request); });
  };
}

}  // namespace

void register_generator(py::module_& m) {
  m.attr("MAX_DRAFT_TOKENS") = specdec::max_draft_tokens;
  m.attr("AUTO_DRAFT_TOKENS") = specdec::auto_draft_tokens;
  m.def(
      "find_bundled_pair",
      [](const std::vector<std::string>& folders) {
        const specdec::ModelPair pair = specdec::find_bundled_pair(folders);
        return std::make_pair(pair.target, pair.draft);
      },
      "folders"_a, "Paths of the bundled target and draft.");

  py::class_<specdec::sampling::SamplingParams>(m, "SamplingParams", "Transforms of both models' logits; see Generator.stream.")
      .def(py::init([](double temperature, int top_k, double top_p, double min_p, double repeat_penalty, double frequency_penalty,
                       double presence_penalty, int penalty_last_n, const std::map<specdec::Token, double>& logit_bias) {
             specdec::sampling::SamplingParams params;
             params.temperature = temperature;
             params.top_k = top_k;
             params.top_p = top_p;
             params.min_p = min_p;
             params.repeat_penalty = repeat_penalty;
             params.frequency_penalty = frequency_penalty;
             params.presence_penalty = presence_penalty;
             params.penalty_last_n = penalty_last_n;
             params.logit_bias.assign(logit_bias.begin(), logit_bias.end());
             return params;
           }),
           py::kw_only(), "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "repeat_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a,
           "penalty_last_n"_a, "logit_bias"_a);

  py::class_<GuardedGenerator>(m, "Generator", "The engine behind specdec_native.Generator.")
      .def(py::init([](std::string target, std::string draft, int n_ctx, int n_threads, int n_batch, std::optional<int> n_gpu_layers,
                       std::vector<std::string> rpc, bool mmap, std::string kv_type, int max_sequences, int num_draft_tokens) {
             specdec::GeneratorOptions options;
             options.target = std::move(target);
             options.draft = std::move(draft);
             options.n_ctx = n_ctx;
             options.n_threads = n_threads;
             options.n_batch = n_batch;
             options.n_gpu_layers = n_gpu_layers;
             options.rpc_servers = std::move(rpc);
             options.use_mmap = mmap;
             options.kv_type = std::move(kv_type);
             options.max_sequences = max_sequences;
             options.num_draft_tokens = num_draft_tokens;
             py::gil_scoped_release release;
             return std::make_unique<GuardedGenerator>(options);
           }),
           py::kw_only(), "target"_a, "draft"_a, "n_ctx"_a, "n_threads"_a, "n_batch"_a, "n_gpu_layers"_a, "rpc"_a, "mmap"_a,
           "kv_type"_a, "max_sequences"_a, "num_draft_tokens"_a)
      .def(
          "start", with_request<void>([](Generator& generator, const specdec::Request& request) { generator.start(request); }),
          py::kw_only(), "prompt"_a, "sampling"_a, "stop"_a, "seed"_a, "num_draft_tokens"_a, "max_tokens"_a, "verification"_a,
          "drafting"_a, "Begins a text; reads the prompt into both caches.")
      .def(
          "next", [](GuardedGenerator& self) { return piece_to_python(self.run([](Generator& generator) { return generator.next(); })); },
          "The next (token, text, from_draft, logprob, finish_reason), or None at the end of the text.")
      .def(
          "stop", [](GuardedGenerator& self) { self.run([](Generator& generator) { generator.stop(); }); }, "Ends all running texts.")
      .def(
          "submit",
          with_request<std::int64_t>([](Generator& generator, const specdec::Request& request) { return generator.submit(request); }),
          py::kw_only(), "prompt"_a, "sampling"_a, "stop"_a, "seed"_a, "num_draft_tokens"_a, "max_tokens"_a, "verification"_a,
          "drafting"_a, "Queues a text beside those that run; its id.")
      .def(
          "next_event", [](GuardedGenerator& self) { return event_to_python(self.run([](Generator& generator) { return generator.next_event(); })); },
          "The next (id, seed, verification, piece or None, error message or None, stats at the end of that text), or None when all "
          "texts are over.")
      .def(
          "cancel", [](GuardedGenerator& self, std::int64_t id) { self.run([&](Generator& generator) { generator.cancel(id); }); }, "id"_a,
          "Ends a text here.")
      .def("stats", [](const GuardedGenerator& self) { return stats_to_python(self.get().stats()); }, "Counters of the running or last text.")
      .def("tokenize", [](const GuardedGenerator& self, const std::string& text) { return self.get().tokenize(text); }, "text"_a)
      .def("detokenize", [](const GuardedGenerator& self, const std::vector<specdec::Token>& tokens) { return self.get().detokenize(tokens); },
           "tokens"_a)
      .def_property_readonly("seed", [](const GuardedGenerator& self) { return self.get().seed(); })
      .def_property_readonly("verification",
                             [](const GuardedGenerator& self) { return specdec::name(self.get().verification()); })
      .def_property_readonly("max_sequences", [](const GuardedGenerator& self) { return self.get().max_sequences(); })
      .def_property_readonly("n_ctx", [](const GuardedGenerator& self) { return self.get().n_ctx(); })
      .def_property_readonly("n_threads", [](const GuardedGenerator& self) { return self.get().n_threads(); });
}
