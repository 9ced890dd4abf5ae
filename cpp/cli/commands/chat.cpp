#include "cli/commands/chat.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "chat/chat_template.h"
#include "cli/chat_completion.h"
#include "cli/chat_conversation.h"
#include "cli/chat_input.h"
#include "cli/chat_settings.h"
#include "cli/options.h"
#include "cli/picture_files.h"
#include "cli/piece_source.h"
#include "cli/piece_style.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/template_options.h"
#include "cli/terminal/color.h"
#include "cli/terminal/completion.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/screen.h"
#include "cli/terminal/word_wrap.h"
#include "engine/generator.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"

namespace specdec::cli {
namespace {

struct ChatArguments {
  ChatArguments() { request.max_tokens = 512; }

  GeneratorOptions generator;
  Request request;
  std::optional<ChatTemplate> chat_template;  // null: the model's own
  std::string system, color = "auto";
  std::vector<std::string> images;  // paths
  std::vector<PromptSource> first;  // joined
  bool jinja = true, by_line = false, keeps_history = true, single_turn = false;
};

CommandLine command_line(ChatArguments& arguments) {
  CommandLine line;
  line.command = "specdec chat";
  line.arguments = "[options] [MODEL]";
  take_model(line);
  line.about =
      "Answers what is typed or piped to it, using the model's own chat template or another one; without a template "
      "the model continues the text so far. The conversation stays in the KV caches, so that only new messages are "
      "processed. Ctrl-C stops an answer; /help lists the commands; /quit or the end of input exits.";
  line.positional_hint =
      "; a model is FILE.gguf, OWNER/REPO or a short name (specdec models names), a message goes after -p";
  line.groups = {
      {"Text",
       {{{"-p", "--prompt"},
         "TEXT",
         "first message; piped input or the text of -f is appended to it",
         [&arguments](const std::string& given) { arguments.first.push_back({given, std::nullopt}); }},
        {{"-f", "--file"},
         "FILE",
         "first message, from a file",
         [&arguments](const std::string& path) { arguments.first.push_back({std::nullopt, path}); }},
        {{"--image"},
         "FILE",
         "a picture before the first message; may be given several times",
         [&arguments](const std::string& path) { arguments.images.push_back(path); }},
        text({"-sys", "--system-prompt"}, "TEXT", arguments.system, "system prompt"),
        {{"-sysf", "--system-prompt-file"},
         "FILE",
         "system prompt, from a file",
         [&arguments](const std::string& path) { arguments.system = read_file(path); }},
        flag({"-st", "--single-turn"}, arguments.single_turn, "exit after the first answer"),
        template_option(arguments.chat_template),
        template_file_option(arguments.chat_template),
        flag({"--jinja"}, arguments.jinja,
             "accepted for compatibility with llama.cpp; templates are always run as Jinja"),
        predict_option(arguments.request, 1,
                       "maximum number of tokens per answer; -1: until the model ends it or the context is full"),
        stop_option(arguments.request, "stop string: ends an answer, which does not include it; repeatable")}},
      model_group(arguments.generator),
      sampling_group(arguments.request),
      constraint_group(arguments.request),
      {"Input and output",
       {flag({"--lines"}, arguments.by_line, "each line of piped input is a message; otherwise all of it is one"),
        flag({"--no-history"}, arguments.keeps_history, "do not keep what is typed for the next run", false),
        color_option(arguments.color)}},
  };
  line.basics = {"-p", "-sys", "-n", "-m", "-md", "-hf", "-hfd", "-k", "-c", "-t", "--temp", "-s"};
  return line;
}

void add_paragraph(std::string& text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

std::string printable_lines(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += (result.empty() ? "" : "\n") + printable(line);
  return result;
}

std::string short_name_of(const std::string& path) {
  return printable(std::filesystem::path(path).filename().string());
}

constexpr const char* demonstration =
    "This is a demonstration: a small model that continues Python code and cannot answer. For a conversation, name a "
    "model: specdec chat -m FILE.gguf, or specdec chat -hf OWNER/REPO to download one.";
constexpr const char* help_hint =
    "/help lists the commands, Tab completes; Alt-Enter, a \\ at the end or \"\"\" for several lines";

class Chat {
 public:
  Chat(const ChatArguments& arguments, ChatInput& input, bool is_demonstration)
      : settings_(request_of(ChatArguments()), request_of(arguments), arguments.generator, use_color(arguments.color)),
        input_(input),
        is_typed_(input.is_typed()),
        is_demonstration_(is_demonstration),
        single_turn_(arguments.single_turn),
        generator_(arguments.generator),
        conversation_((set_template(arguments), generator_), arguments.system) {
    show_notes(generator_);
    pictures_ = read_pictures(generator_, arguments.images);
    models_ = models(arguments);
    if (is_typed_) note(introduction());
    input.set_completer([](const std::string& text) { return complete_chat(text, words()); });
    if (!conversation_.has_template()) {
      tell("note: this model has no chat template; it continues the text so far (--chat-template gives it one)");
    }
  }

  // Returns false if a message or command from a script has failed.
  bool run(const std::string& first) {
    if (!first.empty()) attempt([&] { ask(first); });
    for (bool goes_on = true; goes_on && !has_ended();) {
      attempt([&] {
        const std::optional<std::string> line = input_.next();
        goes_on = line && !(input_.has_commands() && leaves(*line));
        if (!goes_on) return;
        if (input_.has_commands()) obey(*line);
        else ask(*line);
      });
    }
    return is_typed_ || !has_failed_;
  }

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (Chat::*run)(const std::string& argument);
  };
  static const Command commands[13];

  // A message or a command that fails does not end a chat whose input goes on.
  template <class Action>
  void attempt(Action action) {
    try {
      action();
    } catch (const Cancelled&) {
      if (!is_typed_) throw;
      clear_interrupt();
    } catch (const Error& error) {
      if (!input_.has_commands()) throw;
      has_failed_ = true;
      tell(printable(error.what()));
    }
  }

  static std::string first_word(const std::string& line) { return line.substr(0, line.find_first_of(" \n")); }
  static bool leaves(const std::string& line) {
    const std::string word = first_word(line);
    return line == "exit" || word == "/quit" || word == "/exit";
  }

  void obey(const std::string& line) {
    const std::string word = first_word(line);
    const std::size_t rest = line.find_first_not_of(" \n", word.size());
    const auto command =
        std::find_if(std::begin(commands), std::end(commands), [&](const Command& c) { return word == c.name; });
    if (command != std::end(commands)) {
      (this->*command->run)(rest == std::string::npos ? "" : line.substr(rest));
    } else if (word.compare(0, 1, "/") == 0 && (word.size() == line.size() || !meant(word).empty())) {
      tell("unknown command " + printable(word) + (meant(word).empty() ? "; /help lists the commands" : meant(word)));
    } else if (!line.empty()) {
      ask(line);
    }
  }

  static std::vector<ChatWord> words() {
    std::vector<ChatWord> all = {{"/quit", ""}, {"/exit", ""}};
    for (const Command& command : commands) all.push_back({command.name, command.argument});
    return all;
  }
  // "; did you mean /set?", or "".
  static std::string meant(const std::string& word) {
    std::vector<std::string> names;
    for (const ChatWord& known : words()) names.push_back(known.name);
    return suggestion(word, names);
  }

  static Request request_of(const ChatArguments& arguments) {
    Request request = arguments.request;
    request.num_draft_tokens = arguments.generator.num_draft_tokens;  // for /set
    return request;
  }

  bool has_ended() const { return single_turn_ && conversation_.has_answer(); }

  void set_template(const ChatArguments& arguments) {
    if (arguments.chat_template) generator_.chat().set_template(*arguments.chat_template);
  }

  // The models that run here.
  std::string models(const ChatArguments& arguments) const {
    const std::string draft = to_text(generator_.models().plan().draft_source);
    const char* of_template = arguments.chat_template        ? "given"
                              : conversation_.has_template() ? "the model's own"
                                                             : "none";
    const int context = generator_.n_ctx(), trained = generator_.models().target_model().trained_context();
    std::string size = counted(context, "token");
    if (context < trained) size += " of the " + std::to_string(trained) + " that the model was trained for (-c)";
    return labelled("model", short_name_of(arguments.generator.target)) +
           labelled("draft", draft.empty() ? "none" : short_name_of(draft)) + labelled("template", of_template) +
           labelled("context", size);
  }

  std::string introduction() const {
    const std::size_t width = idx(std::max(20, terminal_size().columns - 1));
    return models_ + (is_demonstration_ ? wrap(demonstration, width, 0) + "\n" : "") + wrap(help_hint, width, 0) + "\n";
  }

  void ask(const std::string& typed) {
    std::string question = read_;
    add_paragraph(question, typed);
    conversation_.ask(question, pictures_);
    try {
      if (respond()) return forget_files();
    } catch (...) {
      conversation_.forget_turn();
      throw;
    }
    conversation_.forget_turn();
    if (has_stopped_) input_.put_back(typed);
  }

  // Writes an answer, or its continuation, until its end or Ctrl-C; what was written becomes a part of the
  // conversation. Returns false if nothing was written, because the question is too long or Ctrl-C came first.
  bool respond() {
    ChatConversation::Answer answer;
    std::optional<FinishReason> reason;
    WordWrap wrap;
    has_stopped_ = false;
    try {
      const std::size_t left_out = conversation_.num_left_out();
      conversation_.prepare(settings_.request, reserve());
      if (const std::size_t count = conversation_.num_left_out() - left_out; count > 0) {
        tell("(the context of " + std::to_string(generator_.n_ctx()) + " tokens is full: the oldest " +
             (count == 1 ? "turn is" : std::to_string(count) + " turns are") + " left out from now on)");
      }
      last_.reset();
      last_ = generator_.submit(settings_.request, interrupted);
      PieceSource pieces(last_, [this] { input_.keep_typed(); });
      while (const std::optional<Piece> piece = pieces.next()) {
        put(*piece, wrap);
        answer.text += piece->text;
        answer.tokens.push_back(piece->token);
        reason = piece->finish_reason;
        input_.keep_typed();
      }
    } catch (const Cancelled&) {
      has_stopped_ = true;
      if (!is_typed_) throw;  // input from a script: end with the error
      clear_interrupt();
    } catch (const ContextFull& error) {
      tell(std::string(error.what()) + remedy());
      return false;
    } catch (const std::invalid_argument& error) {  // in a value from /set, perhaps a grammar
      tell(printable(error.what()) + "; /set changes it");
      return false;
    } catch (const Error&) {
      if (!answer.text.empty()) write("\n");
      throw;
    }
    answer.is_complete = reason == FinishReason::stop;
    if (has_stopped_ && answer.is_empty()) {
      const PromptProgress progress = last_ ? last_->prompt_progress() : PromptProgress();
      tell("(stopped while reading: " + std::to_string(progress.read) + " of " + counted(progress.all, "token") + ")");
      return false;
    }
    conversation_.add_to_answer(answer);
    report_ = {last_->stats(), last_->drafting()};
    if (has_stopped_ || answer.text.empty() || answer.text.back() != '\n') write("\n");
    if (reason == FinishReason::context) tell("(the context is full (-c); /clear starts a new conversation)");
    if (!is_typed_) return true;
    if (has_stopped_) tell("(stopped; /more continues)");
    if (reason == FinishReason::length)
      tell("(cut at -n " + std::to_string(settings_.request.max_tokens) + "; /more continues)");
    note(styled(told(summary()) + "\n", Style::faint, settings_.color));
    explain_colors();
    tell_of_drafts();
    warn_of_full_context(answer.tokens.size());
    return true;
  }

  // Tokens of the context that are reserved for an answer.
  int reserve() const { return std::min(settings_.request.max_tokens, generator_.n_ctx() / 4); }

  void put(const Piece& piece, WordWrap& wrap) const {
    const Style style = style_of(piece);
    if (is_typed_ && can_draw() && conversation_.has_template())
      write(wrap.add(piece.text, style, settings_.color, terminal_size().columns));
    else write(styled(piece.text, style, settings_.color));
  }

  // The remedy if the context cannot hold the last turn.
  std::string remedy() const {
    constexpr int step = 512, template_tokens = 64;  // sizes are rounded up to steps; roughly what a template adds
    const std::size_t text = generator_.tokenize(conversation_.system() + conversation_.question(), false).size();
    const std::size_t needed = text + conversation_.answer().tokens.size() + idx(reserve() + template_tokens);
    const std::size_t size = (needed + step - 1) / step * step,
                      trained = idx(generator_.models().target_model().trained_context());
    if (size > trained) return "; the model was trained for " + std::to_string(trained) + ": shorten the message";
    return "; start with -c " + std::to_string(size) + ", or shorten the message";
  }

  std::string summary() {
    const Stats& stats = report_->stats;
    std::string text = counted(stats.tokens, "token") + format(", %.1f tokens/s", stats.tokens_per_second());
    if (stats.accepted > 0) text += format(", %.1f per target call", stats.tokens_per_target_call());
    if (has_draft(generator_.models().plan().draft_source) && stats.drafted == 0)
      text += ", without drafts (/stats says why)";
    if (const double gain = measured_gain(stats, generator_.plain_seconds_per_token()); gain > 0.0)
      text += format(", about %.1f times plain decoding", gain);
    return text;
  }

  // Explains the colours once, when the first coloured text appears.
  void explain_colors() {
    if (!settings_.color || report_->stats.accepted == 0 || std::exchange(has_explained_colors_, true)) return;
    WordWrap wrap;
    const auto part = [&](const char* text, Style style) {
      note(wrap.add(text, style, true, terminal_size().columns));
    };
    part("(", Style::faint);
    part("green", Style::green);
    part(": accepted drafts, ", Style::faint);
    part("cyan", Style::cyan);
    part(": copied text; /set color off)\n", Style::faint);
  }

  // Tells once whether drafts are used, when this is measured.
  void tell_of_drafts() {
    const std::string& drafting = report_->drafting;
    if (!has_draft(generator_.models().plan().draft_source) || drafting.compare(0, 3, "off") != 0 ||
        std::exchange(has_told_of_drafts_, true))
      return;
    note(styled(told("(drafts are " + drafting + ")") + "\n", Style::faint, settings_.color));
  }

  void warn_of_full_context(std::size_t answer) {
    const std::size_t used = settings_.request.prompt_tokens.size() + answer, all = idx(generator_.n_ctx());
    if (used * 4 < all * 3 || std::exchange(has_warned_, true)) return;
    tell("(" + std::to_string(used) + " of " + std::to_string(all) +
         " tokens of context are used; when they are full, the oldest turns are left out)");
  }

  // Commands.

  void help(const std::string&) {
    constexpr std::size_t label = 18;
    const std::size_t width = idx(std::max(36, terminal_size().columns - 1)) - label;
    std::string text;
    for (const Command& command : commands) {
      text += pad(std::string(command.name) + (*command.argument != 0 ? " " : "") + command.argument, label) +
              wrap(command.help, width, label) + "\n";
    }
    note(text + pad("/quit, Ctrl-D", label) + wrap("leave; Ctrl-C stops an answer", width, label) + "\n");
  }
  void clear(const std::string&) {
    conversation_.clear();
    report_.reset();
    forget_files();
    has_warned_ = false;
    tell("(a new conversation)");
  }
  void system(const std::string& text) {
    const std::string& present = conversation_.system();
    if (text.empty()) return note(present.empty() ? "(there is no system prompt)\n" : printable_lines(present) + "\n");
    const bool removes = text == none;
    conversation_.set_system(removes ? "" : text);
    tell(std::string(removes ? "(no system prompt from now on" : "(this is the system prompt from now on") +
         (conversation_.is_empty() ? ")" : "; /clear starts a new conversation)"));
  }
  void again(const std::string&) {
    if (conversation_.is_empty()) return tell(no_answer);
    const ChatConversation::Answer answer = conversation_.answer();
    conversation_.set_answer({});
    try {
      if (respond()) return;
    } catch (...) {
      conversation_.set_answer(answer);
      throw;
    }
    conversation_.set_answer(answer);
  }
  void more(const std::string&) {
    if (!conversation_.has_answer()) tell(no_answer);
    else if (conversation_.answer().is_complete) tell("the answer is complete; /regen gives another one");
    else respond();
  }
  void undo(const std::string&) {
    report_.reset();
    tell(conversation_.forget_turn() ? "(the last question and its answer are forgotten)" : "there is nothing to undo");
  }
  void statistics(const std::string&) {
    if (!conversation_.has_answer()) return tell(no_answer);
    if (!report_) return tell("there are no statistics of this answer; /regen answers the question again");
    note(statistics_text(report_->stats, report_->drafting, generator_.models().plan().draft_window,
                         generator_.plain_seconds_per_token()));
  }
  void save(const std::string& given) {
    const bool overwrites = given == "-f" || given.rfind("-f ", 0) == 0;
    const std::string path =
        with_home(overwrites ? given.substr(std::min(given.size(), given.find_first_not_of(' ', 2))) : given);
    if (path.empty()) return tell("/save needs the name of a file");
    try {
      const std::string text = conversation_.to_json();
      OutputFile output(path, overwrites || path == file_, "/save -f " + printable(path) + " replaces it");
      output.file().write(0, text.data(), text.size());
      output.publish();
      file_ = path;
      tell("(saved to " + printable(path) + ")");
    } catch (const Error& error) {
      tell(printable(error.what()));
    }
  }
  void load(const std::string& given) {
    if (given.empty()) return tell("/load needs the name of a file");
    const std::string path = with_home(given);
    try {
      PromptSource source;
      source.file = path;
      conversation_.from_json(read_prompt(source));
      report_.reset();
      file_ = path;
      has_warned_ = false;
      tell("(loaded " + printable(path) + ": " + loaded() + ")");
    } catch (const Error& error) {
      tell(printable(error.what()));
    } catch (const std::invalid_argument& error) {
      tell(printable(path) + ": " + printable(error.what()));
    }
  }
  void set(const std::string& text) { note(settings_.set(text)); }
  void read(const std::string& given) {
    if (given.empty()) return tell("/read needs the name of a file");
    const std::string path = with_home(given);
    try {
      PromptSource source;
      source.file = path;
      const std::string text = read_prompt(source);
      add_paragraph(read_, text);
      tell("(read " + printable(path) + ", " + counted(generator_.tokenize(text, false).size(), "token") +
           "; it goes before your next message)");
    } catch (const Error& error) {
      tell(printable(error.what()));
    }
  }
  void image(const std::string& given) {
    if (given.empty()) return tell("/image needs the name of a picture");
    const std::string path = with_home(given);
    try {
      const PictureFiles read = read_pictures(generator_, {path});
      pictures_.insert(pictures_.end(), read.begin(), read.end());
      tell("(" + printable(path) + " goes before your next message)");
    } catch (const Error& error) {
      tell(printable(error.what()));
    } catch (const std::invalid_argument& error) {
      tell(printable(error.what()));
    }
  }
  void forget_files() {
    read_.clear();
    pictures_.clear();
  }
  void show(const std::string&) {
    std::string text = models_ + labelled("used", used());
    if (!conversation_.system().empty()) text += "system   " + printable_lines(conversation_.system()) + "\n";
    if (!read_.empty())
      text += "read     " + counted(generator_.tokenize(read_, false).size(), "token") + " before your next message\n";
    for (const auto& picture : pictures_)
      text += "picture  " + printable(picture->name) + " before your next message\n";
    const std::string changed = settings_.changed();
    note(text + (changed.empty() ? "" : "options that differ from the defaults:\n" + changed));
  }

  std::string loaded() const {
    std::string text = counted(conversation_.num_turns(), "turn");
    if (!conversation_.system().empty()) text += " and a system prompt";
    if (!conversation_.is_empty() && !conversation_.has_answer()) text += "; /regen answers the last question";
    return text;
  }
  // "120 tokens in 2 turns": what the context holds of the conversation.
  std::string used() const {
    const ChatConversation::Use use = conversation_.use();
    const std::size_t left_out = conversation_.num_turns() - use.turns;
    if (left_out == 0) return counted(use.tokens, "token") + " in " + counted(use.turns, "turn");
    if (use.turns == 0) return "0 tokens: the last of " + counted(left_out, "turn") + " is longer than the context";
    return counted(use.tokens, "token") + " in the last " + counted(use.turns, "turn") +
           " (earlier: " + std::to_string(left_out) + ", left out)";
  }

  static constexpr const char* none = "none";
  static constexpr const char* no_answer = "there is no answer yet";

  ChatSettings settings_;
  ChatInput& input_;
  bool is_typed_, is_demonstration_, single_turn_;
  bool has_stopped_ = false;  // Ctrl-C stopped the last answer
  bool has_warned_ = false;   // that this conversation has filled the context
  bool has_told_of_drafts_ = false, has_explained_colors_ = false;
  bool has_failed_ = false;  // a message or a command
  struct Report {
    Stats stats;
    std::string drafting;
  };
  std::optional<Report> report_;  // of the last answer, if it was written in this run
  std::string models_, read_;     // the models that run; files to put before the next message
  PictureFiles pictures_;         // likewise
  std::string file_;              // of the last /save or /load
  Generator generator_;
  std::shared_ptr<RequestHandle> last_;  // the running or last answer; null: none yet
  ChatConversation conversation_;
};

const Chat::Command Chat::commands[] = {
    {"/help", "", "this list", &Chat::help},
    {"/clear", "", "a new conversation", &Chat::clear},
    {"/system", "TEXT", "set the system prompt, also of this conversation (none: remove it); no text: show it",
     &Chat::system},
    {"/regen", "", "answer the last question again", &Chat::again},
    {"/more", "", "continue an answer that was cut off", &Chat::more},
    {"/undo", "", "forget the last question and its answer", &Chat::undo},
    {"/stats", "", "statistics of the last answer", &Chat::statistics},
    {"/read", "FILE", "put a text file before the next message", &Chat::read},
    {"/image", "FILE", "put a picture before the next message", &Chat::image},
    {"/show", "", "models, context, system prompt, changed options", &Chat::show},
    {"/save", "FILE", "write the conversation as JSON; -f FILE replaces a file", &Chat::save},
    {"/load", "FILE", "continue a conversation from such a file", &Chat::load},
    {"/set", "NAME VALUE", "change an option (temp, ...; none resets it) or color; no name: show all", &Chat::set},
};

}  // namespace

CommandLine describe_chat() {
  static ChatArguments arguments;
  return command_line(arguments);
}

int run_chat(int argc, const char* const* argv) {
  ChatArguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  name_model(arguments.generator, *positionals);
  arguments.request.prompt = "?";
  arguments.request.validate();  // checked before models are loaded
  const bool is_demonstration = arguments.generator.target.empty();
  std::string first;
  for (const PromptSource& source : arguments.first) add_paragraph(first, read_prompt(source));
  // The terminal is raw from here on, so that text typed meanwhile is kept.
  ChatInput input(arguments.keeps_history ? history_path("chat.jsonl") : "", arguments.by_line);
  if (!first.empty() && !input.is_typed() && !arguments.by_line) {
    // Otherwise it would wait for text from the terminal, unseen if the output goes to a file.
    if (input_is_terminal()) arguments.single_turn = true;
    else add_paragraph(first, input.next().value_or(""));
  }
  resolve_models(arguments.generator);
  arguments.generator.progress = [&input, show = arguments.generator.progress](const LoadProgress& at) {
    input.keep_typed();
    return show(at);
  };
  Chat chat(arguments, input, is_demonstration);  // loads the models; Ctrl-C meanwhile ends the program
  catch_interrupts();
  return chat.run(first) ? 0 : 1;
}

}  // namespace specdec::cli
