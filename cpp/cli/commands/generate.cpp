#include "cli/commands/generate.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/commands/generate_many.h"
#include "cli/options.h"
#include "cli/piece_json.h"
#include "cli/piece_source.h"
#include "cli/piece_style.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/terminal/color.h"
#include "cli/terminal/output.h"
#include "engine/generator.h"
#include "engine/prefix_file.h"
#include "engine/request_options.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

struct GenerateOptions {
  GenerateOptions() { generator.max_sequences = 0; }  // 0: not given

  GeneratorOptions generator;
  Request request;
  PromptSource prompt;
  ManyOptions many;
  std::string color = "auto";
  std::optional<bool> display_prompt;  // nullopt: only if standard output is a terminal
  bool json = false;
  bool statistics = true;
  std::string prompt_cache;  // path; empty: none
};

CommandLine command_line(GenerateOptions& options) {
  CommandLine line;
  line.command = "specdec generate";
  line.arguments = "[options] [MODEL] [-p TEXT | -f FILE]";
  take_model(line);
  line.about =
      "Continues a prompt. With any draft the output is distributed exactly as the target model's; a good draft makes "
      "it faster. Without -p and -f the prompt is read from standard input.";
  line.positional_hint = "; a prompt goes after -p, in quotes";
  const auto set_prompt = [&options](const std::string& text) { options.prompt.text = text; };
  const auto set_file = [&options](const std::string& text) { options.prompt.file = text; };
  const auto display = [&options](bool value) {
    return [&options, value](const std::string&) { options.display_prompt = value; };
  };
  line.groups = {
      {"Text",
       {{{"-p", "--prompt"}, "TEXT", "the prompt, used verbatim", set_prompt},
        {{"-f", "--file"},
         "FILE",
         "read the prompt from a file (-: standard input); one trailing newline is removed",
         set_file},
        flag({"-e", "--escape"}, options.prompt.escapes, "interpret \\n, \\t, \\\" ... in -p"),
        text({"--prompt-cache"}, "FILE", options.prompt_cache,
             "keep the processed prompt in FILE for later runs, which read only what FILE lacks; the output is the "
             "same. A FILE is for one pair of models, one kind of processor and one layer placement; others and "
             "damaged ones are replaced"),
        {{"--prediction"},
         "FILE",
         "text that the output is likely to repeat, such as the file being edited: drafts are copied from it, and the "
         "output stays the target's",
         [&options](const std::string& path) { options.request.prediction = read_file(path); }},
        predict_option(options.request, 0),
        stop_option(options.request)}},
      model_group(options.generator),
      sampling_group(options.request),
      constraint_group(options.request),
      {"Many prompts",
       {text({"--prompts"}, "FILE", options.many.prompts,
             "many prompts, JSON Lines (-: standard input); one request per line: {\"prompt\": \"...\"}, optionally "
             "with options named as in Python (max_tokens, seed, ...) and an \"id\", which is copied to its result; -s "
             "is the seed of the first line, those of the others are derived from it"),
        text({"--output"}, "FILE", options.many.output,
             "JSON Lines in the same order, one result per line: index, id, seed, verification, text, finish_reason, "
             "stats or error. With top_logprobs also tokens, as --json has them. Results are in FILE.part until all "
             "are done; the same command resumes an interrupted run"),
        flag({"--force"}, options.many.force, "replace an existing --output"), parallel_option(options.generator)}},
      {"Output",
       {flag({"--json"}, options.json,
             "JSON instead of text; one object per token (token, text, from_draft, draft_source, logprob), then one "
             "with finish_reason, seed, verification and stats, whose field drafting says whether drafts are used, or "
             "why not"),
        option_of(*option::find(request_options(), "top_logprobs"), options.request),
        color_option(options.color),
        {{"--display-prompt"},
         "",
         "print the prompt before the output (default: if standard output is a terminal)",
         display(true)},
        {{"--no-display-prompt"}, "", "print only the output", display(false)},
        flag({"--no-stats", "--no-perf"}, options.statistics, "do not print statistics to standard error", false)}},
  };
  line.basics = {
      "-p",        "-f",    "-n", "-m", "-md", "-hf", "-hfd", "-k", "-c", "-t", "--temp", "-s", "--prompt-cache",
      "--prompts", "--json"};
  return line;
}

// The options that repeat the output if the rest of the command stays the same.
std::string how_to_repeat(const RequestHandle& request) {
  const std::string seed = std::to_string(request.seed()), mode = name(request.verification());
  if (request.is_repeatable()) return labelled("repeat", "--seed " + seed + " --verification " + mode);
  return labelled("seed", seed + ", verification " + mode) +
         labelled("repeat", "start with --seed: without it, -k auto depends on measured times");
}

// Writes the output as text or as JSON.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void begin(const std::string& prompt) = 0;
  virtual void add(const Piece& piece) = 0;
  // reason: "stop", "length", "context", "cancelled"; empty with -n 0.
  virtual void end(const std::string& reason, const RequestHandle& request, const Stats& stats) = 0;
};

class TextSink : public Sink {
 public:
  TextSink(const GenerateOptions& options, Generator& generator)
      : generator_(generator),
        color_(use_color(options.color)),
        terminal_(output_is_terminal()),
        display_prompt_(options.display_prompt.value_or(terminal_)),
        statistics_(options.statistics) {}

  void begin(const std::string& prompt) override {
    if (display_prompt_) put(prompt, Style::faint);
  }
  void add(const Piece& piece) override { put(piece.text, style_of(piece)); }
  void end(const std::string& reason, const RequestHandle& request, const Stats& stats) override {
    if (terminal_ && !at_line_start_) write("\n");
    if (!statistics_) return;
    const double plain = generator_.plain_seconds_per_token();
    note((terminal_ ? "\n" : "") + statistics_text(stats, request.drafting(), generator_.draft_window(), plain) +
         labelled("ended", "by " + (reason.empty() ? "-n 0" : reason)) + how_to_repeat(request));
  }

 private:
  // Writes colour and piece at once, so that an interruption does not leave the terminal coloured.
  void put(const std::string& text, Style style) {
    if (text.empty()) return;
    write(styled(text, style, color_));
    at_line_start_ = text.back() == '\n';
  }

  Generator& generator_;
  bool color_, terminal_, display_prompt_, statistics_;
  bool at_line_start_ = true;
};

class JsonSink : public Sink {
 public:
  explicit JsonSink(const Generator& generator) : generator_(generator) {}
  void begin(const std::string&) override {}
  void add(const Piece& piece) override { put(piece_json(piece, generator_)); }
  void end(const std::string& reason, const RequestHandle& request, const Stats& stats) override {
    put({{"finish_reason", reason.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(reason)},
         {"seed", request.seed()},
         {"verification", name(request.verification())},
         {"draft_window", generator_.draft_window()},
         {"stats", statistics_json(stats, request.drafting())}});
  }

 private:
  static void put(const nlohmann::ordered_json& json) { write(json.dump() + "\n"); }

  const Generator& generator_;
};

void load_prompt_cache(Generator& generator, const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return;
  try {
    generator.load_prefix(path);
  } catch (const UnusableFile& error) {
    note(std::string("note: the whole prompt is read again: ") + error.what() + "\n");
  }
}

// Saves the prompt unless the whole prompt came from that file.
void save_prompt_cache(Generator& generator, const RequestHandle& request, const std::string& path) {
  const Stats stats = request.stats();
  if (stats.prompt_cached_tokens + 1 >= stats.prompt_tokens) return;
  try {
    generator.save_prefix(request, path);
  } catch (const Error& error) {
    note(std::string("note: the prompt is not cached: ") + error.what() + "\n");
  }
}

// Returns whether generation was interrupted.
bool generate(Generator& generator, const GenerateOptions& options, Sink& sink) {
  const Request& request = options.request;
  if (const std::string text = generator.note_of(request); !text.empty()) note("note: " + text + "\n");
  std::shared_ptr<RequestHandle> handle;
  Stats reading;  // of the prompt if a separate request read it
  std::string reason;
  try {
    load_prompt_cache(generator, options.prompt_cache);
    if (!options.prompt_cache.empty()) {  // only the prompt is saved
      handle = read_prompt_of(generator, request);
      save_prompt_cache(generator, *handle, options.prompt_cache);
      reading = handle->stats();
    }
    handle = generator.submit(request, interrupted);
    PieceSource pieces(handle);
    bool has_begun = false;
    while (const std::optional<Piece> piece = pieces.next()) {
      if (!std::exchange(has_begun, true)) sink.begin(request.prompt);
      sink.add(*piece);
      if (piece->finish_reason) reason = name(*piece->finish_reason);
    }
    if (!has_begun) sink.begin(request.prompt);
  } catch (const Cancelled&) {
    if (!handle) return true;  // interrupted while the prompt was tokenized
    reason = "cancelled";
  }
  Stats stats = handle->stats();
  if (!options.prompt_cache.empty() && reading.prompt_tokens > 0) {
    stats.prompt_cached_tokens = reading.prompt_cached_tokens;
    stats.prompt_seconds += reading.prompt_seconds;
  }
  sink.end(reason, *handle, stats);
  return reason == "cancelled";
}

}  // namespace

CommandLine describe_generate() {
  static GenerateOptions arguments;
  return command_line(arguments);
}

int run_generate(int argc, const char* const* argv) {
  GenerateOptions options;
  const CommandLine line = command_line(options);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  name_model(options.generator, *positionals);
  if (options.many.prompts.empty() != options.many.output.empty())
    throw UsageError("--prompts and --output must be given together");
  if (!options.many.prompts.empty()) {
    if (options.prompt.text || options.prompt.file) throw UsageError("give only one of -p, -f and --prompts");
    if (options.json || options.display_prompt || options.prompt.escapes || !options.prompt_cache.empty()) {
      throw UsageError(
          "--prompts writes JSON Lines to --output; it cannot be combined with --json, --display-prompt, "
          "--prompt-cache or -e");
    }
    if (options.generator.max_sequences == 0) options.generator.max_sequences = 8;
    return generate_many(options.generator, options.request, options.many);
  }
  if (options.generator.max_sequences != 0 || options.many.force) throw UsageError("-np and --force need --prompts");
  if (options.request.top_logprobs != 0 && !options.json) throw UsageError("--top-logprobs needs --json, or --prompts");
  options.generator.max_sequences = 1;
  options.request.logprobs = options.json;
  options.request.prompt = read_prompt(options.prompt);
  options.request.validate();  // checked before models are loaded
  resolve_models(options.generator);

  Generator generator(options.generator);
  show_notes(generator);
  catch_interrupt();
  std::unique_ptr<Sink> sink;
  if (options.json) sink = std::make_unique<JsonSink>(generator);
  else sink = std::make_unique<TextSink>(options, generator);
  return generate(generator, options, *sink) ? exit_interrupted : 0;
}

}  // namespace specdec::cli
