#include "cli/commands/generate.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands/generate_many.h"
#include "cli/options.h"
#include "cli/picture_files.h"
#include "cli/piece_json.h"
#include "cli/piece_source.h"
#include "cli/piece_style.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/template_options.h"
#include "cli/terminal/color.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/generator.h"
#include "engine/label_scores.h"
#include "engine/prefix_file.h"
#include "engine/prompt.h"
#include "engine/request_options.h"
#include "platform/interrupt.h"
#include "server/assistant_message.h"
#include "server/chat_request.h"
#include "server/picture_parts.h"

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
  bool is_chat = false, scores_choices = false, has_length = false;  // has_length: -n is given
  std::string system;
  std::optional<ChatTemplate> chat_template;  // of chats; nullopt: the model's own
  std::string prompt_cache;                   // path; empty: none
  std::vector<std::string> images;            // paths
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
  Option length = predict_option(options.request, 0);
  length.set = [&options, set = length.set](const option::Value& value) {
    set(value);
    options.has_length = true;
  };
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
             "same. A FILE fits one pair of models, one kind of processor and one layer placement; any other or "
             "damaged one is replaced, but never a file that is not a prompt cache"),
        {{"--prediction"},
         "FILE",
         "text that the output is likely to repeat, such as the file being edited: drafts are copied from it, and the "
         "output stays the target's",
         [&options](const std::string& path) { options.request.prediction = read_file(path); }},
        {{"--image"},
         "FILE",
         "a picture that comes before the prompt, or before the message with --chat; PNG, JPEG, GIF or BMP; may be "
         "given several times",
         [&options](const std::string& path) { options.images.push_back(path); }},
        length,
        stop_option(options.request)}},
      {"Chat",
       {flag({"--chat"}, options.is_chat,
             "the prompt is a user's message, in the model's chat template; prints one answer, which without -n ends "
             "where the model ends it. On a terminal its reasoning is shown too"),
        text({"-sys", "--system-prompt"}, "TEXT", options.system, "system prompt"),
        template_option(options.chat_template), template_file_option(options.chat_template)}},
      model_group(options.generator),
      sampling_group(options.request),
      constraint_group(options.request),
      {"Labels",
       {flag({"--score-choices"}, options.scores_choices,
             "instead of generating, print how likely each --choice is after the prompt: its share among the choices, "
             "its log-probability, the choice")}},
      {"Many prompts",
       {text({"--prompts"}, "FILE", options.many.prompts,
             "many prompts, JSON Lines (-: standard input); one request per line: {\"prompt\": \"...\"}, optionally "
             "with options named as in Python (max_tokens, seed, ...) and an \"id\", which is copied to its result; or "
             "{\"messages\": [...]} with the fields of the server's chats (tools, response_format, ...); or a line of "
             "OpenAI's batch format. -s is the seed of the first line, those of the others are derived from it"),
        text({"--output"}, "FILE", options.many.output,
             "JSON Lines in the same order, one result per line: index, id, seed, verification, text, message (of "
             "conversations), finish_reason, stats or error. With top_logprobs also tokens, as --json has them. "
             "Results are in FILE.part until all "
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
      "-p",     "-f",        "-n",    "-m", "-md", "-hf", "-hfd", "-k", "-c", "-t", "--temp", "-s", "--prompt-cache",
      "--chat", "--prompts", "--json"};
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
  // The answer to a conversation that is read from the pieces; must outlive the sink. Null: there is none.
  void set_answer(server::AssistantMessage* answer) { answer_ = answer; }
  // reason: "stop", "length", "context", "cancelled"; empty with -n 0.
  virtual void end(const std::string& reason, const RequestHandle& request, const Stats& stats) = 0;

 protected:
  server::AssistantMessage* answer_ = nullptr;
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
  void add(const Piece& piece) override {
    if (answer_ == nullptr) return put(piece.text, style_of(piece));
    for (const nlohmann::ordered_json& delta : answer_->add(piece)) {
      const std::string reasoning = text_in(delta, "reasoning_content"), content = text_in(delta, "content");
      if (terminal_) put(reasoning, Style::faint);
      if (!content.empty() && std::exchange(has_reasoned_, false)) put("\n\n", Style::faint);
      if (!reasoning.empty() && terminal_) has_reasoned_ = true;
      put(content, style_of(piece));
    }
  }
  void end(const std::string& reason, const RequestHandle& request, const Stats& stats) override {
    if (terminal_ && !at_line_start_) write("\n");
    if (!statistics_) return;
    const double plain = generator_.plain_seconds_per_token();
    note((terminal_ ? "\n" : "") +
         statistics_text(stats, request.drafting(), generator_.models().plan().draft_window, plain) +
         labelled("ended", "by " + (reason.empty() ? "-n 0" : reason)) + how_to_repeat(request));
  }

 private:
  // A field's text; empty if it is null or missing.
  static std::string text_in(const nlohmann::ordered_json& object, const char* field) {
    return object.contains(field) && object[field].is_string() ? object[field].get<std::string>() : "";
  }

  // Writes colour and piece at once, so that an interruption does not leave the terminal coloured.
  void put(const std::string& text, Style style) {
    if (text.empty()) return;
    write(styled(text, style, color_));
    at_line_start_ = text.back() == '\n';
  }

  Generator& generator_;
  bool color_, terminal_, display_prompt_, statistics_;
  bool at_line_start_ = true;
  bool has_reasoned_ = false;  // reasoning was shown, and no content after it
};

class JsonSink : public Sink {
 public:
  explicit JsonSink(const Generator& generator) : generator_(generator) {}
  void begin(const std::string&) override {}
  void add(const Piece& piece) override {
    if (answer_ != nullptr) (void)answer_->add(piece);
    put(piece_json(piece, generator_));
  }
  void end(const std::string& reason, const RequestHandle& request, const Stats& stats) override {
    nlohmann::ordered_json last;
    if (answer_ != nullptr) last["message"] = answer_->json();
    last.update({{"finish_reason", reason.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(reason)},
                 {"seed", request.seed()},
                 {"verification", name(request.verification())},
                 {"draft_window", generator_.models().plan().draft_window},
                 {"stats", statistics_json(stats, request.drafting())}});
    put(last);
  }

 private:
  static void put(const nlohmann::ordered_json& json) { write(json.dump() + "\n"); }

  const Generator& generator_;
};

void load_prompt_cache(Generator& generator, const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return;
  try {
    generator.prefixes().load(path);
  } catch (const UnusableFile& error) {
    note(std::string("note: the whole prompt is read again: ") + error.what() + "\n");
  }
}

// Saves the prompt unless the whole prompt came from that file.
void save_prompt_cache(Generator& generator, const RequestHandle& request, const std::string& path) {
  const Stats stats = request.stats();
  if (stats.prompt_cached_tokens + 1 >= stats.prompt_tokens) return;
  try {
    generator.prefixes().save(request, path);
  } catch (const Error& error) {
    note(std::string("note: the prompt is not cached: ") + error.what() + "\n");
  }
}

// Reads the prompt as the server reads a user's message. Returns the answer.
server::AssistantMessage ask(Generator& generator, GenerateOptions& options) {
  server::ServiceOptions service_options;
  service_options.defaults = options.request;
  if (!options.has_length) service_options.defaults.max_tokens = std::numeric_limits<int>::max();
  service_options.reads_picture_files = true;
  const server::Service service(generator, 1, service_options);
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  nlohmann::ordered_json content = options.request.prompt;
  if (!options.request.picture_files.empty()) {
    content = nlohmann::ordered_json::array();
    for (const auto& picture : options.request.picture_files)
      content.push_back(server::picture_part(picture->name, picture->name));
    content.push_back({{"type", "text"}, {"text", options.request.prompt}});
  }
  messages.push_back({{"role", "user"}, {"content", std::move(content)}});
  const nlohmann::ordered_json body = {{"messages", messages}};
  const server::ChatRequest chat = server::read_chat_request(service, server::Fields(body), {interrupted});
  options.request = chat.request;
  return server::AssistantMessage(chat.parser);
}

// The scores of a request that has read its prompt.
std::vector<double> run_label(Generator& generator, const Request& request) {
  const std::shared_ptr<RequestHandle> handle = generator.submit(request, interrupted);
  while (PieceSource(handle).next()) {
  }
  const std::shared_ptr<const Score> score = handle->prompt_score();
  return score ? score->logprobs : std::vector<double>();
}

void score_choices(Generator& generator, const GenerateOptions& options) {
  std::vector<Token> prompt = options.request.prompt_tokens;
  if (prompt.empty())
    prompt = tokenize_prompt(generator.vocabulary(), options.request.prompt, generator.n_ctx(), interrupted);
  (void)run_label(generator, reading_request(prompt));
  std::vector<std::vector<double>> logprobs;
  std::vector<std::vector<Token>> tokens;
  std::vector<double> totals;
  for (const std::string& choice : *options.request.choice) {
    tokens.push_back(generator.continuation_tokens(choice));
    logprobs.push_back(run_label(generator, label_request(prompt, tokens.back())));
    totals.push_back(total(logprobs.back()));
  }
  const std::vector<double> probabilities = shares(totals);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const std::string& choice = (*options.request.choice)[i];
    if (options.json) {
      const nlohmann::ordered_json line = {{"choice", choice},
                                           {"tokens", tokens[i]},
                                           {"logprobs", logprobs[i]},
                                           {"logprob", totals[i]},
                                           {"probability", probabilities[i]}};
      write(line.dump() + "\n");
    } else {
      write(format("%8.4f  %12.6f  ", probabilities[i], totals[i]) + printable(choice) + "\n");
    }
  }
}

// Returns whether generation was interrupted.
bool generate(Generator& generator, const GenerateOptions& options, const std::string& shown_prompt, Sink& sink) {
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
      if (!std::exchange(has_begun, true)) sink.begin(shown_prompt);
      sink.add(*piece);
      if (piece->finish_reason) reason = name(*piece->finish_reason);
    }
    if (!has_begun) sink.begin(shown_prompt);
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
    if (options.is_chat || options.scores_choices)
      throw UsageError("--chat and --score-choices are for one prompt; with --prompts, lines have \"messages\"");
    if (!options.system.empty()) throw UsageError("-sys is for --chat; with --prompts, lines have \"messages\"");
    if (!options.images.empty()) throw UsageError("--image is for one prompt; with --prompts, lines have \"messages\"");
    if (options.chat_template) options.generator.chat_template = options.chat_template->text();
    options.many.chat_tokens = options.has_length ? options.request.max_tokens : std::numeric_limits<int>::max();
    if (options.generator.max_sequences == 0) options.generator.max_sequences = 8;
    return generate_many(options.generator, options.request, options.many);
  }
  if (options.generator.max_sequences != 0 || options.many.force) throw UsageError("-np and --force need --prompts");
  if (options.request.top_logprobs != 0 && !options.json) throw UsageError("--top-logprobs needs --json, or --prompts");
  options.generator.max_sequences = 1;
  options.request.logprobs = options.json;
  options.request.prompt = read_prompt(options.prompt);
  options.request.validate();  // checked before models are loaded
  if (options.scores_choices && !options.request.choice) throw UsageError("--score-choices needs --choice TEXT");
  if (!options.is_chat && (!options.system.empty() || options.chat_template))
    throw UsageError("-sys needs --chat, --chat-template needs --chat or --prompts");
  resolve_models(options.generator);

  Generator generator(options.generator);
  show_notes(generator);
  catch_interrupt();
  const std::string prompt = options.request.prompt;
  std::optional<server::AssistantMessage> answer;
  if (options.chat_template) generator.chat().set_template(*options.chat_template);
  options.request.picture_files = read_pictures(generator, options.images);
  if (options.is_chat) {
    note_missing_template(generator);
    answer.emplace(ask(generator, options));
  } else {
    options.request.prompt = marks_of(options.request.picture_files) + options.request.prompt;
  }
  if (options.scores_choices) {
    try {
      score_choices(generator, options);
    } catch (const Cancelled&) {
      return exit_interrupted;
    }
    return 0;
  }
  std::unique_ptr<Sink> sink;
  if (options.json) sink = std::make_unique<JsonSink>(generator);
  else sink = std::make_unique<TextSink>(options, generator);
  sink->set_answer(answer ? &*answer : nullptr);
  return generate(generator, options, prompt, *sink) ? exit_interrupted : 0;
}

}  // namespace specdec::cli
