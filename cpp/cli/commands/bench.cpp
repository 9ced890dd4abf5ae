#include "cli/commands/bench.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/isa.h"
#include "cli/commands/bench_report.h"
#include "cli/commands/comparison.h"
#include "cli/options.h"
#include "cli/piece_source.h"
#include "cli/plot.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/version.h"
#include "engine/generator.h"
#include "engine/memory.h"
#include "platform/cores.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

constexpr int warm_up_length = 16;
constexpr int pass_repeats = 9;  // in each of the rounds

// Prompts for models with a chat template.
const std::vector<std::string> questions = {
    "Write a Python function that returns the longest common subsequence of two strings.",
    "Explain how a hash table works, and when a sorted array is the better choice.",
    "Rename the variable in this function to `total` and add a docstring:\n\ndef add(numbers):\n    t = 0\n    for n "
    "in "
    "numbers:\n        t += n\n    return t",
    "Write a short letter that asks a library to lend me a book for two more weeks.",
};
// Prompts for models without a chat template.
const std::vector<std::string> beginnings = {
    "def bfs(graph, start):",
    "class LRUCache:\n    def __init__(self, ",
    "import argparse\n\n\ndef main():\n",
    "def read_config(path):\n    \"\"\"Return the ",
};

struct BenchArguments {
  BenchArguments() {
    request.max_tokens = 64;
    request.verification =
        Verification::block;  // the fastest mode; the seed only makes all modes start with the same numbers
  }

  ComparisonOptions comparison;
  Request request;
  std::vector<std::string> texts, files;
  bool escapes = false, json = false, force = false;
  int rounds = 5;
  std::string plot;
};

CommandLine command_line(BenchArguments& arguments) {
  CommandLine line;
  line.command = "specdec bench";
  line.arguments = "[options] [MODEL]";
  take_model(line);
  line.about =
      "Measures the tokens per second of the target without and with a draft, and compares the speedup with a "
      "prediction from the times of single passes; --mxfp6 adds the target's MXFP6 version. Every round runs all "
      "modes, so that changes in the machine's speed affect all of them. Reading prompts is not timed.";
  line.positional_hint = "; a prompt goes after -p, in quotes";
  ComparisonOptions& comparison = arguments.comparison;
  line.groups = {
      {"Text",
       {texts(
            {"-p", "--prompt"}, "TEXT", arguments.texts,
            "a prompt; repeatable (default: four questions in the model's chat template, or without one four starts of "
            "Python source files)"),
        texts({"-f", "--file"}, "FILE", arguments.files, "a prompt from a file; repeatable"),
        flag({"-e", "--escape"}, arguments.escapes, "interpret \\n, \\t, \\\" ... in -p"),
        predict_option(
            arguments.request, 1,
            "maximum number of tokens per prompt; -1: until the model ends its output or the context is full")}},
      {"Comparison",
       {mxfp6_option(comparison),
        texts({"--also"}, "FILE", comparison.also,
              "another version of the target, measured with and without the draft; repeatable"),
        integer({"--repeat"}, arguments.rounds, 1, 1000, "rounds (default: 5)"),
        flag({"--sequential"}, comparison.sequential,
             "keep one target in memory at a time (default: only if they do not fit together)")}},
      model_group(comparison.generator),
      sampling_group(arguments.request),
      {"Output",
       {flag({"--json"}, arguments.json, "one JSON object, times in seconds"),
        text({"--plot"}, "FILE", arguments.plot,
             "also draw the speeds as a PNG; needs pip install \"specdec_native[plot]\""),
        flag({"--force"}, arguments.force, "replace an existing --plot")}},
  };
  line.basics = {"-p", "-f",     "-n",      "-m",     "-md",      "-hf",    "-hfd",  "-k",
                 "-t", "--temp", "--mxfp6", "--also", "--repeat", "--json", "--plot"};
  return line;
}

// The given prompts; empty: the defaults, which depend on the model.
std::vector<std::string> given_prompts(const BenchArguments& arguments) {
  std::vector<std::string> all;
  for (const std::string& text : arguments.texts) all.push_back(read_prompt({text, std::nullopt, arguments.escapes}));
  for (const std::string& file : arguments.files) all.push_back(read_prompt({std::nullopt, file, false}));
  return all;
}

// Finds the longest draft of a cycle in the listener of a request, which is called after each piece.
class LongestDraft {
 public:
  void see(std::int64_t drafted) {
    longest_ = std::max(longest_.load(), static_cast<int>(drafted - drafted_));
    drafted_ = drafted;
  }
  int longest() const { return longest_; }

 private:
  std::int64_t drafted_ = 0;  // only the thread that runs models uses it
  std::atomic<int> longest_{0};
};

class Bench {
 public:
  Bench(const BenchArguments& arguments, std::vector<std::string> prompts, ProgressLine& progress)
      : arguments_(arguments), prompts_(std::move(prompts)), progress_(progress) {}

  BenchResult run() {
    prepare(arguments_.comparison, progress_, comparison_);
    for (const ComparedFile& file : comparison_.files)
      result_.files.push_back({file.name, file.options.target, model_bytes(file.options.target), {}});
    for (const Mode& mode : comparison_.modes) result_.modes.push_back({mode.name, mode.file, mode.speculation, {}});
    // The given target comes first in the table but is measured last: timing its passes needs K, which its own runs do
    // not show.
    std::for_each(comparison_.loads.rbegin(), comparison_.loads.rend(),
                  [this](const auto& files) { measure_together(files); });
    share_draft_time();
    result_.num_prompts = num_prompts();
    result_.max_tokens = arguments_.request.max_tokens;
    result_.temperature = arguments_.request.sampling.temperature;
    result_.seed = *arguments_.request.seed;
    result_.n_threads = threads_->size();
    result_.processor = processor_name();
    result_.isa = default_isa().isa->name;
    result_.program = std::string("specdec ") + version + ", " + build;
    result_.interleaved = comparison_.loads.size() == 1;
    return std::move(result_);
  }

 private:
  void measure_together(const std::vector<std::size_t>& files) {
    generators_.clear();
    generators_.resize(comparison_.files.size());
    last_.clear();
    last_.resize(comparison_.files.size());
    for (const std::size_t file : files) {
      progress_.begin("loading " + comparison_.files[file].name);
      generators_[file] = std::make_unique<Generator>(comparison_.files[file].options, threads_);
      show_notes(*generators_[file]);
      result_.draft = to_text(generators_[file]->models().plan().draft_source);
      result_.are_questions = asks(*generators_[file]);
      generators_[file]->set_remembers_outputs(false);  // a draft must not copy another round's output
      threads_ = generators_[file]->models().threads();
    }
    for (const BenchResult::Mode& mode : result_.modes) warm_up(mode);
    std::vector<std::vector<PassTimes>> passes(comparison_.files.size());
    for (int round = 0; round < arguments_.rounds; ++round) {
      for (BenchResult::Mode& mode : result_.modes) measure(mode, round);
      for (const std::size_t file : files) passes[file].push_back(time_passes(file));
    }
    for (const std::size_t file : files) result_.files[file].passes = medians(passes[file]);
    generators_.clear();
  }

  void warm_up(const BenchResult::Mode& mode) {
    if (generators_[mode.file] == nullptr) return;
    progress_.begin("warming up: " + mode.name);
    Stats ignored;
    run_prompt(mode, 0, std::min(warm_up_length, arguments_.request.max_tokens), ignored);
  }

  // Does nothing if the mode's file is not loaded.
  void measure(BenchResult::Mode& mode, int round) {
    if (generators_[mode.file] == nullptr) return;
    progress_.begin("round " + std::to_string(round + 1) + " of " + std::to_string(arguments_.rounds) + ": " +
                    mode.name);
    Stats stats;
    for (std::size_t prompt = 0; prompt < num_prompts(); ++prompt)
      run_prompt(mode, prompt, arguments_.request.max_tokens, stats);
    if (stats.tokens < min_timed_tokens) {
      throw Error(mode.name + " generated only " + counted(stats.tokens, "token") +
                  " in a round: too few tokens to time; " + "give more prompts, or prompts with longer continuations");
    }
    mode.rounds.push_back(stats);
  }

  bool asks(const Generator& generator) const { return prompts_.empty() && generator.chat().has_template(); }
  std::size_t num_prompts() const { return prompts_.empty() ? questions.size() : prompts_.size(); }

  void set_prompt(Request& request, const Generator& generator, std::size_t prompt) const {
    if (asks(generator)) request.set_prompt(generator.chat().tokens(conversation({{"user", questions[prompt]}})));
    else request.prompt = prompts_.empty() ? beginnings[prompt] : prompts_[prompt];
  }

  void run_prompt(const BenchResult::Mode& mode, std::size_t prompt, int max_tokens, Stats& stats) {
    Generator& generator = *generators_[mode.file];
    Request request = arguments_.request;
    request.prompt.clear();
    set_prompt(request, generator, prompt);
    request.max_tokens = max_tokens;
    if (!mode.speculation) request.num_draft_tokens = 0;
    const std::shared_ptr<RequestHandle> handle = generator.submit(request, interrupted);
    const auto drafts = std::make_shared<LongestDraft>();
    handle->set_listener([drafts, &request = *handle] { drafts->see(request.stats().drafted); });
    PieceSource pieces(handle);
    while (pieces.next()) {
    }
    longest_draft_ = std::max(longest_draft_, drafts->longest());
    stats += handle->stats();
    last_[mode.file] = handle;
  }

  // Times passes of 1 .. K + 1 tokens, where K is the longest draft of the first round.
  PassTimes time_passes(std::size_t file) {
    if (longest_pass_ == 0) longest_pass_ = longest_draft_ + 1;
    progress_.begin("timing passes: " + comparison_.files[file].name);
    return generators_[file]->time_passes(*last_[file], longest_pass_, pass_repeats, interrupted);
  }

  static PassTimes medians(const std::vector<PassTimes>& rounds) {
    const auto over_rounds = [&](auto&& value) {
      std::vector<double> values;
      for (const PassTimes& times : rounds) values.push_back(value(times));
      return median(values);
    };
    PassTimes result;
    result.draft = over_rounds([](const PassTimes& times) { return times.draft; });
    for (std::size_t i = 0; i < rounds.front().target.size(); ++i) {
      result.target.push_back(over_rounds([i](const PassTimes& times) { return times.target[i]; }));
    }
    return result;
  }

  // All files share the draft, so all get the median of its times.
  void share_draft_time() {
    std::vector<double> seconds;
    for (const BenchResult::File& file : result_.files) seconds.push_back(file.passes.draft);
    for (BenchResult::File& file : result_.files) file.passes.draft = median(seconds);
  }

  const BenchArguments& arguments_;
  std::vector<std::string> prompts_;  // as given
  ProgressLine& progress_;
  Comparison comparison_;
  std::vector<std::unique_ptr<Generator>> generators_;  // [file], null while not loaded
  std::vector<std::shared_ptr<RequestHandle>> last_;    // [file] the request that passes are timed after
  std::shared_ptr<ThreadPool> threads_;                 // shared by all generators
  int longest_draft_ = 0;                               // tokens
  int longest_pass_ = 0;                                // tokens; 0: not known yet
  BenchResult result_;
};

}  // namespace

CommandLine describe_bench() {
  static BenchArguments arguments;
  return command_line(arguments);
}

int run_bench(int argc, const char* const* argv) {
  BenchArguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  name_model(arguments.comparison.generator, *positionals);
  const std::vector<std::string> texts = given_prompts(arguments);
  for (const std::string& text : texts.empty() ? beginnings : texts) {
    arguments.request.prompt = text;
    arguments.request.validate();
  }
  if ((texts.empty() ? beginnings : texts).size() * idx(arguments.request.max_tokens) < min_timed_tokens) {
    throw UsageError("too few tokens to time; give a larger -n or more prompts, for at least " +
                     std::to_string(min_timed_tokens) + " in all");
  }
  fix_seed(arguments.request);
  resolve_models(arguments.comparison.generator);
  if (!arguments.plot.empty()) check_plot(arguments.plot, arguments.force);

  catch_termination();
  ProgressLine progress;
  const BenchResult result = Bench(arguments, texts, progress).run();
  progress.clear();
  const std::string json = bench_json(result).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write(arguments.json ? json : bench_text(result));
  if (!arguments.plot.empty()) draw_plot(arguments.plot, arguments.force, json);
  return 0;
}

}  // namespace specdec::cli
