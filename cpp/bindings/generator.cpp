// Generator for Python: convert, validate, release the GIL, call.
#include "engine/generator.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/suggestion.h"
#include "bindings/chat_prompt.h"
#include "bindings/convert.h"
#include "bindings/load_watch.h"
#include "bindings/register.h"
#include "bindings/request_handle.h"
#include "bindings/results.h"
#include "bindings/without_gil.h"
#include "engine/bundled_models.h"
#include "engine/generator_options.h"
#include "engine/label_scores.h"
#include "engine/prefix_file.h"
#include "engine/prompt.h"
#include "engine/request_options.h"
#include "sampling/derived_seed.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

using Options = py::KWArgs<py::object>;
using Described = py::typing::Dict<py::str, py::typing::Dict<py::str, py::object>>;
using specdec::Generator;
using specdec::RequestHandle;

// Checks signals (Ctrl-C) every 20 ms while a prompt is tokenized.
class SignalCheck {
 public:
  // If it returns true, KeyboardInterrupt, or the exception of the signal's handler, is set.
  bool operator()() {
    if (this_thread_must_end()) return true;
    const auto now = Clock::now();
    if (now - last_look_ < std::chrono::milliseconds(20)) return false;
    last_look_ = now;
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_look_ = Clock::now();
};

// Runs body() without the GIL. Ctrl-C raises the exception of Python's handler.
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

// A str or token ids. name: the argument's name, for errors.
std::vector<specdec::Token> text_tokens(Generator& generator, const char* name, const py::object& text) {
  if (!py::isinstance<py::str>(text)) return tokens_from(name, text);
  const std::string string = string_from(name, text);
  return without_gil(
      [&] { return specdec::tokenize_prompt(generator.vocabulary(), string, generator.n_ctx(), SignalCheck()); });
}

// A Generator whose requests end before Python does.
class StoppedAtExit {
 public:
  explicit StoppedAtExit(const specdec::GeneratorOptions& options) : generator_(options) {
    const std::lock_guard<std::mutex> lock(all_mutex());
    all().insert(&generator_);
  }
  ~StoppedAtExit() {
    const std::lock_guard<std::mutex> lock(all_mutex());
    all().erase(&generator_);
  }
  StoppedAtExit(const StoppedAtExit&) = delete;
  StoppedAtExit& operator=(const StoppedAtExit&) = delete;

  // A forked process has none of the Generator's threads and would wait for them forever.
  Generator& get() {
    if (generator_.is_in_its_process()) return generator_;
    throw specdec::Error(
        "this Generator was created before the process was forked; create one in each process, or use the \"spawn\" "
        "start method");
  }

  // Called when Python ends: threads that wait for their requests do not return, and the models stop. The thread that
  // ends Python may still call the Generator, from exit handlers and __del__ methods.
  static void stop_all() {
    finish_work_without_gil();
    const WithoutGil released;
    const std::lock_guard<std::mutex> lock(all_mutex());
    for (Generator* generator : all()) {
      if (generator->is_in_its_process()) generator->cancel_all();
    }
  }

 private:
  // Never destroyed: generators may outlive the end of Python.
  static std::set<Generator*>& all() {
    static auto* const generators = new std::set<Generator*>;
    return *generators;
  }
  static std::mutex& all_mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
  }

  Generator generator_;
};

// Ends work that runs in another thread.
struct Cancellation {
  std::atomic<bool> is_asked{false};
};

// The number of stack frames up to the code that called the package: 1 for the innermost frame.
int caller_level() {
  int level = 1;
  for (py::object frame = py::module_::import("sys").attr("_getframe")(0); !frame.is_none();
       frame = frame.attr("f_back"), ++level) {
    const auto module_name = py::str(frame.attr("f_globals").attr("get")("__name__", "")).cast<std::string>();
    if (module_name.rfind("specdec_native", 0) != 0) return level;
  }
  return 1;
}

// The warning shows the caller's line. Does nothing if the text is empty.
void warn(const std::string& text) {
  if (!text.empty() && PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), caller_level()) != 0)
    throw py::error_already_set();
}

// From a str or token ids and the options of request_options(), or from a ChatPrompt, which contains its options.
specdec::Request request_from(const py::object& prompt, const Options& options) {
  if (py::isinstance<ChatPrompt>(prompt)) return prompt.cast<const ChatPrompt&>().request;
  specdec::Request request;
  if (py::isinstance<py::str>(prompt)) request.prompt = string_from("prompt", prompt);
  else request.prompt_tokens = tokens_from("prompt", prompt);
  set_options(specdec::request_options(), request, options);
  return request;
}

using NamedPictures = std::vector<std::pair<std::string, py::bytes>>;

specdec::PictureFiles files_of(const NamedPictures& pictures) {
  specdec::PictureFiles files;
  for (const auto& [name, bytes] : pictures) {
    auto file = std::make_shared<specdec::PictureFile>();
    file->name = name;
    file->bytes = bytes;
    files.push_back(std::move(file));
  }
  return files;
}

void add_pictures(specdec::Request& request, const NamedPictures& pictures) {
  if (pictures.empty()) return;
  if (!request.prompt_tokens.empty())
    throw std::invalid_argument("images need a prompt that is a string, not token ids");
  request.picture_files = files_of(pictures);
  std::string marks;
  for (std::size_t i = 0; i < pictures.size(); ++i) marks += specdec::picture_mark(i) + "\n";
  request.prompt.insert(0, marks);
}

// The path that `download` returns. Python's Error becomes a C++ Error; other exceptions pass through.
std::string downloaded(const py::function& download, const std::string& name) {
  const py::gil_scoped_acquire gil;
  try {
    return download(name).cast<std::string>();
  } catch (py::error_already_set& error) {
    if (!error.matches(py::module_::import("specdec_native._core").attr("Error"))) throw;
    throw specdec::Error(py::str(error.value()).cast<std::string>());
  }
}

}  // namespace

void register_generator(py::module_& m) {
  m.def(
      "find_bundled_pair",
      [](const std::vector<std::string>& folders) {
        const specdec::ModelPair pair = specdec::find_bundled_pair(folders);
        return std::make_pair(pair.target, pair.draft);
      },
      "folders"_a, "The paths of the bundled target and draft, searched for in these folders.");
  m.def("derived_seed", &specdec::sampling::derived_seed, "seed"_a, "index"_a,
        "The seed of request `index` in a batch with the common seed `seed`.");

  m.def("picture_mark", &specdec::picture_mark, "index"_a, "What stands for a picture in the text of a message.");
  m.def("suggestion", &specdec::suggestion, "word"_a, "candidates"_a,
        "\"; did you mean X?\" for the candidate closest to a word, or \"\" if none is close.");
  m.def("shares", &specdec::shares, "logprobs"_a,
        "The labels' shares of their common probability, from their log-probabilities.");
  m.def(
      "request_options", [] { return Described(described(specdec::request_options())); },
      "The options of a request: name -> type, requirement, default, command line flags and help.");
  m.def(
      "generator_options", [] { return Described(described(specdec::generator_options())); },
      "The options of a Generator, described as in request_options().");
  m.def(
      "check_request_options", [](const Options& options) { (void)request_from(py::str("?"), options); },
      "Raises the error that submit() would raise for these options.");
  m.def(
      "ignored_keywords",
      [](const Options& options) {
        specdec::Request request = request_from(py::str("?"), options);
        request.strict_schema = false;
        return specdec::ignored_keywords(request);
      },
      "The places (JSON pointers) of keywords that strict_schema=False leaves to the caller.");

  py::class_<Cancellation, std::shared_ptr<Cancellation>>(m, "Cancellation", "Ends work that runs in another thread.")
      .def(py::init())
      .def(
          "ask", [](Cancellation& self) { self.is_asked = true; }, "Any thread may call this.")
      .def_property_readonly("is_asked", [](const Cancellation& self) { return self.is_asked.load(); });

  register_chat_prompt(m);
  register_request_handle(m);
  py::module_::import("atexit").attr("register")(py::cpp_function(&StoppedAtExit::stop_all));

  py::class_<StoppedAtExit>(m, "Generator", "The engine behind specdec_native.Generator.")
      .def(py::init([](const py::typing::Callable<py::object(py::str, py::float_)>& tell,
                       const py::typing::Callable<py::str(py::str)>& download, const Options& given) {
             specdec::GeneratorOptions options;
             set_options(specdec::generator_options(), options, given);
             std::unique_ptr<StoppedAtExit> generator;
             LoadWatch watch(tell);
             options.progress = [&watch](const specdec::LoadProgress& at) { return watch(at); };
             options.download = [&download](const std::string& name) { return downloaded(download, name); };
             try {
               const WithoutGil without_gil;
               generator = std::make_unique<StoppedAtExit>(options);
             } catch (...) {
               watch.check();
               throw;
             }
             watch.check();
             for (const std::string& note : generator->get().models().notes()) warn(note);
             return generator;
           }),
           "tell"_a, "download"_a,
           "Takes the options of generator_options(). While models are loaded, tell(step, share) is called every\n"
           "50 ms; if it raises, loading stops. download(name) returns the path of a model from the hub, or raises\n"
           "Error.")
      .def_property_readonly(
          "placement", [](StoppedAtExit& self) { return self.get().models().placement(); },
          "Which layers run on which devices; \"\" if none were asked for.")
      .def_property_readonly(
          "draft_choice", [](StoppedAtExit& self) { return self.get().models().plan().draft_choice; },
          "What draft=\"auto\" chose, or \"\".")
      .def(
          "submit",
          [](StoppedAtExit& self, const py::object& prompt, const NamedPictures& pictures, bool score_prompt,
             bool read_prompt, const Options& options) {
            specdec::Request request = request_from(prompt, options);
            add_pictures(request, pictures);
            request.logprobs = true;  // every piece has one
            request.score_prompt = score_prompt;
            request.read_prompt = read_prompt;
            warn(self.get().note_of(request));
            return without_gil([&] { return self.get().submit(request, SignalCheck()); });
          },
          "prompt"_a, "pictures"_a, "score_prompt"_a, "read_prompt"_a,
          "Submits a request; any thread may call it. Takes the options of request_options(). pictures: (name,\n"
          "bytes), which come before the prompt. read_prompt: read the prompt even if max_tokens is 0.")
      .def(
          "submit_reading",
          [](StoppedAtExit& self, const std::vector<specdec::Token>& prompt) {
            return without_gil([&] { return self.get().submit(specdec::reading_request(prompt), SignalCheck()); });
          },
          "prompt"_a, "Submits a request that only reads the prompt.")
      .def(
          "submit_label",
          [](StoppedAtExit& self, const std::vector<specdec::Token>& prompt, const std::vector<specdec::Token>& label) {
            return without_gil([&] { return self.get().submit(specdec::label_request(prompt, label), SignalCheck()); });
          },
          "prompt"_a, "label"_a, "Submits a request that scores a label after the prompt.")
      .def(
          "prompt_tokens",
          [](StoppedAtExit& self, const py::object& prompt) { return text_tokens(self.get(), "prompt", prompt); },
          "prompt"_a, "The tokens of a prompt, a str or token ids.")
      .def(
          "label_tokens",
          [](StoppedAtExit& self, const py::object& label) {
            if (!py::isinstance<py::str>(label)) return tokens_from("a label", label);
            const std::string text = string_from("a label", label);
            const WithoutGil released;
            return self.get().continuation_tokens(text);
          },
          "label"_a, "The tokens of a label, a str or token ids, as the continuation of a prompt.")
      .def(
          "close", [](StoppedAtExit& self) { without_gil([&] { self.get().close(); }); },
          "Ends all requests; no more can be submitted.")
      .def(
          "set_remembers_outputs",
          [](StoppedAtExit& self, bool remembers) {
            without_gil([&] { self.get().set_remembers_outputs(remembers); });
          },
          "remembers"_a, "False: drafts are not copied from outputs of requests that finish after this call.")
      .def(
          "drafting",
          [](StoppedAtExit& self, const std::optional<std::shared_ptr<RequestHandle>>& request) {
            return without_gil([&] { return self.get().drafting(request ? request->get() : nullptr); });
          },
          "request"_a, "Whether a request (None: a future one) uses drafts, and if not, why.")
      .def(
          "save_prefix",
          [](StoppedAtExit& self, const RequestHandle& request, const py::bytes& path) {
            const std::string name = path;
            return without_gil([&] { return self.get().prefixes().save(request, name); });
          },
          "request"_a, "path"_a, "Writes the cached part of a request to a file; returns its number of tokens.")
      .def(
          "load_prefix",
          [](StoppedAtExit& self, const py::bytes& path) {
            const std::string name = path;
            try {
              return std::make_pair(without_gil([&] { return self.get().prefixes().load(name); }), std::string());
            } catch (const specdec::UnusableFile& error) {
              return std::make_pair(0, std::string(error.what()));
            }
          },
          "path"_a,
          "Fills the caches of a free slot from a file; returns (number of tokens, \"\"), or (0, why the file is "
          "unusable).")
      .def(
          "embed",
          [](StoppedAtExit& self, const py::object& text, const std::shared_ptr<Cancellation>& cancellation) {
            const std::vector<specdec::Token> tokens = text_tokens(self.get(), "texts", text);
            const auto is_cancelled = [&] { return cancellation->is_asked.load(); };
            const std::vector<float> row = without_gil([&] { return self.get().embed(tokens, is_cancelled); });
            return py::array_t<float>(static_cast<py::ssize_t>(row.size()), row.data());
          },
          "text"_a, "cancellation"_a,
          "The embedding of a str or token ids, normalized to length 1. Raises Cancelled once that is asked for.")
      .def(
          "hidden_rows",
          [](StoppedAtExit& self, const py::object& text, const std::vector<int>& layers, int num_top) {
            const std::vector<specdec::Token> tokens = text_tokens(self.get(), "text", text);
            const specdec::LayerRows rows =
                without_gil([&] { return self.get().hidden_rows(tokens, layers, num_top); });
            return rows_to_python(tokens, layers.size(), rows);
          },
          "text"_a, "layers"_a, "num_top"_a,
          "(tokens, rows [tokens, layers, width], top_tokens and top_logprobs [tokens, num_top]) of a str or token "
          "ids.")
      .def(
          "time_passes",
          [](StoppedAtExit& self, const RequestHandle& after, int max_tokens, int repeats) {
            return without_gil([&] { return self.get().time_passes(after, max_tokens, repeats, {}).target; });
          },
          "after"_a, "max_tokens"_a, "repeats"_a,
          "Seconds that passes of the target over 1 to max_tokens tokens take, after the tokens of a request that\n"
          "has ended.")
      .def_property_readonly("num_layers",
                             [](StoppedAtExit& self) { return self.get().models().target_model().num_layers(); })
      .def_property_readonly(
          "pooling",
          [](StoppedAtExit& self) { return specdec::name(specdec::pooling_of(self.get().models().target_model())); },
          "How embeddings are pooled: \"mean\", \"first\", \"last\" or \"rank\" (not at all).")
      .def(
          "tokenize",
          [](StoppedAtExit& self, const py::object& object, bool special) {
            const std::string text = string_from("text", object);
            const WithoutGil without_gil;
            return self.get().tokenize(text, special);
          },
          "text"_a, "special"_a)
      .def(
          "detokenize",
          [](StoppedAtExit& self, const py::object& object, bool special) {
            const std::vector<specdec::Token> tokens = tokens_from("tokens", object);
            const WithoutGil without_gil;
            return self.get().detokenize(tokens, special);
          },
          "tokens"_a, "special"_a)
      .def_property_readonly(
          "has_chat_template", [](StoppedAtExit& self) { return self.get().chat().has_template(); },
          "Whether the target has a chat template.")
      .def(
          "chat_prompt",
          [](StoppedAtExit& self, std::string messages, std::string tools, bool add_generation_prompt,
             bool continues_answer) {
            specdec::Conversation conversation{std::move(messages), std::move(tools), add_generation_prompt};
            conversation.continues_answer = continues_answer;
            const WithoutGil without_gil;
            return self.get().chat().prompt(conversation).text;
          },
          "messages"_a, "tools"_a, "add_generation_prompt"_a, "continues_answer"_a,
          "A conversation rendered in the target's chat template. messages and tools are JSON; tools may be null.\n"
          "continues_answer: the last message is the beginning of the answer.")
      .def(
          "chat",
          [](StoppedAtExit& self, std::string messages, const NamedPictures& pictures, std::string tools,
             std::string callable, bool is_required, bool is_parallel, bool continues_answer, const Options& options) {
            specdec::Request request;
            set_options(specdec::request_options(), request, options,
                        {"tools", "tool_choice", "parallel_tool_calls", "continue_final_message"});
            specdec::Conversation conversation{std::move(messages), std::move(tools), true};
            conversation.continues_answer = continues_answer;
            conversation.pictures = files_of(pictures);
            const specdec::ToolUse tool_use{is_parallel, is_required};
            return without_gil([&] {
              const specdec::Chat& chat = self.get().chat();
              request.set_prompt(chat.tokens(conversation, SignalCheck()));
              conversation.tools = std::move(callable);
              std::shared_ptr<const specdec::ChatOutputParser> parser =
                  chat.prepare_answer(conversation, tool_use, request);
              return ChatPrompt{std::move(request), std::move(parser)};
            });
          },
          "messages"_a, "pictures"_a, "tools"_a, "callable"_a, "is_required"_a, "is_parallel"_a, "continues_answer"_a,
          "The same as chat_prompt(), as a prompt for submit(), with its options. pictures: (name, bytes), whose\n"
          "marks (picture_mark()) stand in the messages. Control tokens written in messages and tools are ordinary\n"
          "text. callable: the tools that may be called; is_required: one of them must be; is_parallel: more than\n"
          "one may be.")
      .def_property_readonly("max_sequences", [](StoppedAtExit& self) { return self.get().max_sequences(); })
      .def_property_readonly("draft_window",
                             [](StoppedAtExit& self) { return self.get().models().plan().draft_window; })
      .def_property_readonly("n_ctx", [](StoppedAtExit& self) { return self.get().n_ctx(); })
      .def_property_readonly("n_threads", [](StoppedAtExit& self) { return self.get().models().threads()->size(); });
}
