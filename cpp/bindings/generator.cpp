// Generator for Python: convert, validate, release the GIL, call.
#include "engine/generator.h"

#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "bindings/chat_prompt.h"
#include "bindings/convert.h"
#include "bindings/load_watch.h"
#include "bindings/register.h"
#include "bindings/request_handle.h"
#include "bindings/results.h"
#include "bindings/without_gil.h"
#include "engine/bundled_models.h"
#include "engine/generator_options.h"
#include "engine/prefix_file.h"
#include "engine/request_options.h"
#include "platform/process.h"
#include "sampling/derived_seed.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

using Options = py::KWArgs<py::object>;
using Described = py::typing::Dict<py::str, py::typing::Dict<py::str, py::object>>;
using specdec::Generator;
using specdec::Piece;
using specdec::RequestHandle;

// Checks signals (Ctrl-C) every 20 ms while models run or a prompt is tokenized, on the thread that asks.
class SignalCheck {
 public:
  // True leaves KeyboardInterrupt, or what the handler raised, set.
  bool operator()() {
    if (this_thread_must_end()) return true;
    const auto now = Clock::now();
    if (now - last_look_ < std::chrono::milliseconds(20)) return false;
    last_look_ = now;
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
  }
  void begin() { last_look_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_look_ = Clock::now();
};

// Runs body() without the GIL. Ctrl-C is raised as what Python's handler made of it.
template <class Body>
auto without_gil(Body body) {
  try {
    const WithoutGil released;
    return body();
  } catch (const specdec::Cancelled&) {
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    throw;
  }
}

// A Generator in the process that made it: one thread at a time may run streams, or any threads may submit requests. Other uses
// raise an error instead of crashing.
class GuardedGenerator {
 public:
  explicit GuardedGenerator(const specdec::GeneratorOptions& options) : generator_(options), drafting_(generator_.drafting_state()) {
    set_cancel_check();
    const std::lock_guard<std::mutex> lock(all_mutex());
    all().insert(this);
  }
  ~GuardedGenerator() {
    {
      const std::lock_guard<std::mutex> lock(all_mutex());
      all().erase(this);
    }
    if (!is_in_its_process()) (void)executor_.release();  // its thread does not exist here
  }
  GuardedGenerator(const GuardedGenerator&) = delete;
  GuardedGenerator& operator=(const GuardedGenerator&) = delete;

  const std::vector<std::string>& notes() const { return generator_.notes(); }

  // Runs body(generator) without the GIL.
  template <class Body>
  auto run(Body body) {
    check_process();
    const Use use(*this);
    end_serving();
    signals_.begin();
    return without_gil([&] {
      const Publish publish(*this);
      return body(generator_);
    });
  }

  // run(), but texts that stop() ended have come to their end.
  template <class Body>
  auto run_to_end(Body body) -> decltype(body(std::declval<Generator&>())) {
    try {
      return run(body);
    } catch (const specdec::Cancelled&) {
      return std::nullopt;
    }
  }

  // Submits a request that runs with others, from any thread.
  std::shared_ptr<RequestHandle> submit_shared(const specdec::Request& request) {
    check_process();
    return without_gil([&] {
      std::shared_ptr<specdec::Text> text = generator_.prepare(request, SignalCheck());
      const std::lock_guard<std::mutex> lock(executor_mutex_);
      if (!executor_) begin_serving();
      return executor_->submit(std::move(text));
    });
  }

  // The conversation with the tools that it shows; callable: those that the answer may call.
  ChatPrompt chat(specdec::Conversation conversation, std::string callable, specdec::ToolUse tool_use, specdec::Request request) const {
    check_process();
    return without_gil([&] {
      request.prompt_tokens = generator_.chat_tokens(conversation, SignalCheck());
      conversation.tools = std::move(callable);
      std::shared_ptr<const specdec::ChatOutputParser> parser = generator_.prepare_answer(conversation, tool_use, request);
      return ChatPrompt{std::move(request), std::move(parser)};
    });
  }

  // Ends everything. Submitting then raises an error.
  void close() {
    stop();
    without_gil([&] { close_executor(); });
  }

  // Called when Python ends: threads must not run models any more.
  static void close_executors() {
    const WithoutGil released;
    const std::lock_guard<std::mutex> lock(all_mutex());
    for (GuardedGenerator* one : all()) {
      if (one->is_in_its_process()) one->close_executor();
    }
  }

  // Ends all texts of streams, on any thread. While a call runs, that call is told to end, and ends them.
  void stop() {
    check_process();
    if (is_serving_) return;
    is_stopping_ = true;
    stop_if_asked();
  }

  // Starts one request, or a run of many. Both end what was running, unless the request is rejected.
  void start(const specdec::Request& request) {
    const std::int64_t before = generator_.text_id();
    const auto count_turn = [&] {
      if (generator_.text_id() != before) ++turn_;
    };
    try {
      run([&](Generator& generator) { generator.start(request); });
    } catch (...) {
      count_turn();
      throw;
    }
    count_turn();
  }
  void start_many() {
    run([](Generator& generator) { generator.stop(); });
    ++turn_;
  }

  std::int64_t turn() const { return turn_; }
  specdec::Stats stats() const {
    const std::lock_guard<std::mutex> lock(stats_mutex_);
    return stats_;
  }
  // As of the end of the last call, too.
  std::string drafting() const {
    const std::lock_guard<std::mutex> lock(stats_mutex_);
    return specdec::drafting_report(drafting_);
  }
  const Generator& get() const { return generator_; }

 private:
  // Never destroyed: generators may outlive the end of Python.
  static std::set<GuardedGenerator*>& all() {
    static auto* const generators = new std::set<GuardedGenerator*>;
    return *generators;
  }
  static std::mutex& all_mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
  }

  // The right to use the generator: one thread at a time has it, and only once.
  class Use {
   public:
    explicit Use(GuardedGenerator& of) : self_(of) {
      if (self_.begin_use()) return;
      if (self_.user_ != std::this_thread::get_id()) {
        throw specdec::Error("this Generator is running in another thread; use one Generator per thread");
      }
      throw specdec::Error(
          "this Generator is running, and a signal handler called it meanwhile; the handler may close its stream or raise an exception, or "
          "use another Generator");
    }
    ~Use() {
      self_.user_ = std::thread::id();
      self_.stop_if_asked();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    GuardedGenerator& self_;
  };

  bool begin_use() {
    std::thread::id nobody;
    return user_.compare_exchange_strong(nobody, std::this_thread::get_id());
  }

  void set_cancel_check() {
    generator_.set_cancel_check([this] { return is_stopping_ || signals_(); });
  }

  // With executor_mutex_ locked. Ends the run of a stream; the executor uses the generator from then on.
  void begin_serving() {
    const Use use(*this);
    executor_ = generator_.make_executor();
    ++turn_;
    is_serving_ = true;
  }

  // With the right to use the generator, before a stream. Throws if submitted requests run.
  void end_serving() {
    if (!is_serving_) return;
    const std::lock_guard<std::mutex> lock(executor_mutex_);
    if (!executor_) return;
    if (executor_->num_unfinished() > 0) {
      throw specdec::Error(
          "submitted requests are running on this Generator: submit this one too, wait for their end, or use another Generator");
    }
    executor_.reset();
    set_cancel_check();
    is_serving_ = false;
  }

  void close_executor() {
    const std::lock_guard<std::mutex> lock(executor_mutex_);
    if (executor_) executor_->close();
  }

  // What is asked for while the generator is in use is done when that use ends: whoever comes last sees both.
  void stop_if_asked() {
    while (is_stopping_ && begin_use()) {
      if (is_stopping_.exchange(false)) {
        const Publish publish(*this);
        generator_.stop();
      }
      user_ = std::thread::id();
    }
  }

  // Counters may be read on any thread: they have the values at the end of the last call.
  struct Publish {
    explicit Publish(GuardedGenerator& of) : self(of) {}
    ~Publish() {
      const std::lock_guard<std::mutex> lock(self.stats_mutex_);
      self.stats_ = self.generator_.stats();
      self.drafting_ = self.generator_.drafting_state();
    }
    GuardedGenerator& self;
  };

  bool is_in_its_process() const { return specdec::process_id() == process_; }

  // Threads do not exist in a forked process: it would wait for them forever.
  void check_process() const {
    if (is_in_its_process()) return;
    throw specdec::Error(
        "this Generator was created before the process was forked; create one in each process, or use the \"spawn\" start method");
  }

  Generator generator_;
  std::atomic<std::thread::id> user_{};  // no thread: not in use
  const std::uint64_t process_ = specdec::process_id();
  std::atomic<bool> is_stopping_{false};
  std::atomic<std::int64_t> turn_{0};
  SignalCheck signals_;
  mutable std::mutex stats_mutex_;
  specdec::Stats stats_;
  specdec::DraftingState drafting_;
  std::mutex executor_mutex_;
  std::unique_ptr<specdec::Executor> executor_;  // null until a request is submitted
  std::atomic<bool> is_serving_{false};          // executor_ uses the generator
};

// drafting: the sentence about drafts, of a last event.
py::object event_to_python(const std::optional<specdec::Event>& event, const std::string& drafting) {
  if (!event) return py::none();
  const specdec::Text& text = *event->text;
  const py::object error = text.has_failed() ? exception_of(text.error()) : py::object(py::none());
  const py::object stats = event->is_last() ? py::object(stats_to_python(text.sequence().stats, drafting)) : py::object(py::none());
  const char* verification = specdec::name(text.verification());
  return py::make_tuple(text.id(), text.seed(), verification, piece_to_python(event->piece), error, stats);
}

// How far up the stack the code is that called the package: 1 for the innermost frame.
int caller_level() {
  int level = 1;
  for (py::object frame = py::module_::import("sys").attr("_getframe")(0); !frame.is_none(); frame = frame.attr("f_back"), ++level) {
    const auto module_name = py::str(frame.attr("f_globals").attr("get")("__name__", "")).cast<std::string>();
    if (module_name.rfind("specdec_native", 0) != 0) return level;
  }
  return 1;
}

// Shows the caller's line. Does nothing if there is no text.
void warn(const std::string& text) {
  if (!text.empty() && PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), caller_level()) != 0) throw py::error_already_set();
}

// A str or token ids, and the options of request_options(); or a ChatPrompt, which has its options.
specdec::Request request_from(const py::object& prompt, const Options& options) {
  if (py::isinstance<ChatPrompt>(prompt)) return prompt.cast<const ChatPrompt&>().request;
  specdec::Request request;
  if (py::isinstance<py::str>(prompt)) request.prompt = string_from("prompt", prompt);
  else request.prompt_tokens = tokens_from("prompt", prompt);
  set_options(specdec::request_options(), request, options);
  return request;
}

}  // namespace

void register_generator(py::module_& m) {
  m.def(
      "find_bundled_pair",
      [](const std::vector<std::string>& folders) {
        const specdec::ModelPair pair = specdec::find_bundled_pair(folders);
        return std::make_pair(pair.target, pair.draft);
      },
      "folders"_a, "Paths of the bundled target and draft.");
  m.def("derived_seed", &specdec::sampling::derived_seed, "seed"_a, "index"_a,
        "The seed of request `index` in a batch with the common seed `seed`.");

  m.def(
      "request_options", [] { return Described(described(specdec::request_options())); },
      "The options of a request: name -> type, requirement, default, command line flags and help.");
  m.def(
      "generator_options", [] { return Described(described(specdec::generator_options())); },
      "The options of a Generator, described as in request_options().");
  m.def(
      "check_request_options", [](const Options& options) { (void)request_from(py::str("?"), options); },
      "Raises the error that start() would raise for these options.");

  register_chat_prompt(m);
  register_request_handle(m);
  py::module_::import("atexit").attr("register")(py::cpp_function(&GuardedGenerator::close_executors));

  py::class_<GuardedGenerator>(m, "Generator", "The engine behind specdec_native.Generator.")
      .def(py::init([](const py::typing::Callable<py::object(py::str, py::float_)>& tell, const Options& given) {
             specdec::GeneratorOptions options;
             set_options(specdec::generator_options(), options, given);
             std::unique_ptr<GuardedGenerator> generator;
             LoadWatch watch(tell);
             options.progress = [&watch](const specdec::LoadProgress& at) { return watch(at); };
             try {
               const WithoutGil without_gil;
               generator = std::make_unique<GuardedGenerator>(options);
             } catch (...) {
               watch.check();
               throw;
             }
             watch.check();
             for (const std::string& note : generator->notes()) warn(note);
             return generator;
           }),
           "tell"_a,
           "Takes the options of generator_options(). While models are loaded, tell(step, share) is called every 50 ms; an exception of it "
           "ends the load.")
      .def(
          "start",
          [](GuardedGenerator& self, const py::object& prompt, const Options& options) {
            const specdec::Request request = request_from(prompt, options);
            warn(self.get().note_of(request));
            self.start(request);
          },
          "prompt"_a, "Starts a request and reads its prompt into both caches. Takes the options of request_options().")
      .def(
          "next",
          [](GuardedGenerator& self) { return piece_to_python(self.run_to_end([](Generator& generator) { return generator.next(); })); },
          "The next (token, text, draft_source, logprob, finish_reason, top_logprobs), or None at the end.")
      .def(
          "submit_shared",
          [](GuardedGenerator& self, const py::object& prompt, bool score_prompt, const Options& options) {
            specdec::Request request = request_from(prompt, options);
            request.score_prompt = score_prompt;
            warn(self.get().note_of(request));
            return SharedRequest(self.submit_shared(request));
          },
          "prompt"_a, "score_prompt"_a, "Submits a request that runs with those of other threads. Takes the options of start().")
      .def("close", &GuardedGenerator::close, "Ends all requests for good.")
      .def("stop", &GuardedGenerator::stop, "Ends all running requests, on whichever thread they run.")
      .def("start_many", &GuardedGenerator::start_many, "Ends all running requests and starts a run of submitted ones.")
      .def_property_readonly("turn", &GuardedGenerator::turn,
                             "Number of runs started so far (start, start_many); starting one ends the run before it.")
      .def(
          "submit",
          [](GuardedGenerator& self, const py::object& prompt, const Options& options) {
            const specdec::Request request = request_from(prompt, options);
            warn(self.get().note_of(request));
            return self.run([&](Generator& generator) { return generator.submit(request); });
          },
          "prompt"_a, "Queues a request that runs with the others and returns its id. Takes the options of start().")
      .def(
          "next_event",
          [](GuardedGenerator& self) {
            std::string drafting;
            const auto event = self.run_to_end([&](Generator& generator) {
              std::optional<specdec::Event> next = generator.next_event();
              if (next && next->is_last()) drafting = specdec::drafting_report(generator.drafting_state(next->text.get()));
              return next;
            });
            return event_to_python(event, drafting);
          },
          "The next (id, seed, verification, piece or None, exception or None, stats at the request's end or None), or None when "
          "all requests are finished.")
      .def(
          "save_prefix",
          [](GuardedGenerator& self, const std::string& path) {
            return self.run([&](const Generator& generator) { return generator.save_prefix(path); });
          },
          "path"_a, "Writes the caches of the running or last request of start(); returns its number of tokens.")
      .def(
          "load_prefix",
          [](GuardedGenerator& self, const std::string& path) {
            self.start_many();  // ends what is running
            try {
              return std::make_pair(self.run([&](Generator& generator) { return generator.load_prefix(path); }), std::string());
            } catch (const specdec::UnusableFile& error) {
              return std::make_pair(0, std::string(error.what()));
            }
          },
          "path"_a, "Fills the caches from a file; returns its number of tokens, and why it cannot be used.")
      .def(
          "cancel", [](GuardedGenerator& self, std::int64_t id) { self.run([&](Generator& generator) { generator.cancel(id); }); }, "id"_a,
          "Ends a request.")
      .def(
          "stats", [](const GuardedGenerator& self) { return stats_to_python(self.stats(), self.drafting()); },
          "Counters of the running or last request.")
      .def("drafting", &GuardedGenerator::drafting, "Whether the running or last request uses drafts, and if not why.")
      .def(
          "score",
          [](GuardedGenerator& self, const py::object& prompt, const Options& options) {
            const specdec::Request request = request_from(prompt, options);
            warn(self.get().note_of(request));
            return score_to_python(self.run([&](Generator& generator) { return generator.score(request); }));
          },
          "prompt"_a,
          "(tokens, logprobs, most_likely, top_logprobs) of a str or token ids; all but the first are about tokens[1:]. Takes the "
          "options of start().")
      .def(
          "tokenize",
          [](const GuardedGenerator& self, const py::object& object, bool special) {
            const std::string text = string_from("text", object);
            const WithoutGil without_gil;
            return self.get().tokenize(text, special);
          },
          "text"_a, "special"_a)
      .def(
          "detokenize",
          [](const GuardedGenerator& self, const py::object& object, bool special) {
            const std::vector<specdec::Token> tokens = tokens_from("tokens", object);
            const WithoutGil without_gil;
            return self.get().detokenize(tokens, special);
          },
          "tokens"_a, "special"_a)
      .def_property_readonly(
          "has_chat_template", [](const GuardedGenerator& self) { return self.get().has_chat_template(); },
          "Whether the target has a template of conversations.")
      .def(
          "chat_prompt",
          [](const GuardedGenerator& self, std::string messages, std::string tools, bool add_generation_prompt) {
            const specdec::Conversation conversation{std::move(messages), std::move(tools), add_generation_prompt};
            const WithoutGil without_gil;
            return self.get().chat_prompt(conversation).text;
          },
          "messages"_a, "tools"_a, "add_generation_prompt"_a,
          "A conversation in the target's chat template. messages and tools are JSON; tools may be null.")
      .def(
          "chat",
          [](const GuardedGenerator& self, std::string messages, std::string tools, std::string callable, bool is_required,
             bool is_parallel, const Options& options) {
            specdec::Request request;
            set_options(specdec::request_options(), request, options);
            return self.chat({std::move(messages), std::move(tools), true}, std::move(callable), {is_parallel, is_required},
                             std::move(request));
          },
          "messages"_a, "tools"_a, "callable"_a, "is_required"_a, "is_parallel"_a,
          "chat_prompt() as a prompt of start() and submit_shared(), with the options of start(). Control tokens written in messages and "
          "tools are ordinary text. callable: the tools that may be called; is_required: one of them must be; is_parallel: more than one "
          "may be.")
      .def_property_readonly("seed", [](const GuardedGenerator& self) { return self.get().seed(); })
      .def_property_readonly("verification", [](const GuardedGenerator& self) { return specdec::name(self.get().verification()); })
      .def_property_readonly("max_sequences", [](const GuardedGenerator& self) { return self.get().max_sequences(); })
      .def_property_readonly("n_ctx", [](const GuardedGenerator& self) { return self.get().n_ctx(); })
      .def_property_readonly("n_threads", [](const GuardedGenerator& self) { return self.get().n_threads(); });
}
