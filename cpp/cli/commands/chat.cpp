#include "cli/commands/chat.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/chat_template.h"
#include "cli/chat_conversation.h"
#include "cli/chat_input.h"
#include "cli/options.h"
#include "cli/piece_style.h"
#include "cli/prompt.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/template_options.h"
#include "cli/terminal/color.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/generator.h"
#include "engine/request_json.h"
#include "platform/file.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

struct Arguments {
  GeneratorOptions generator;
  Request request;
  std::optional<ChatTemplate> chat_template;  // null: the model's own
  std::string system, color = "auto";
  PromptSource first;
  bool jinja = true, by_line = false, keeps_history = true, single_turn = false;
};

CommandLine command_line(Arguments& arguments) {
  CommandLine line;
  line.command = "specdec chat";
  line.arguments = "[options]";
  line.about =
      "Answers what is typed or piped to it, using the model's own chat template or another one; without a template the model "
      "continues the text so far. The conversation stays in the KV caches, so that only new messages are processed. Ctrl-C "
      "stops an answer; /help lists the commands; /quit or the end of input exits.";
  line.positional_hint = "; write to standard input, or use -p";
  line.groups = {
      {"Text",
       {{{"-p", "--prompt"}, "TEXT", "first message", [&arguments](const std::string& given) { arguments.first.text = given; }},
        {{"-f", "--file"}, "FILE", "first message, from a file", [&arguments](const std::string& path) { arguments.first.file = path; }},
        text({"-sys", "--system-prompt"}, "TEXT", arguments.system, "system prompt"),
        {{"-sysf", "--system-prompt-file"},
         "FILE",
         "system prompt, from a file",
         [&arguments](const std::string& path) { arguments.system = read_file(path); }},
        flag({"-st", "--single-turn"}, arguments.single_turn, "end after the first answer"),
        template_option(arguments.chat_template),
        template_file_option(arguments.chat_template),
        flag({"--jinja"}, arguments.jinja, "accepted because llama.cpp has it; templates are always run as Jinja"),
        predict_option(arguments.request, 1, "maximum number of tokens per answer; -1: until the model ends it or the context is full"),
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

// As a shell would read it.
std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home != nullptr && path.compare(0, 2, "~/") == 0 ? home + path.substr(1) : path;
}

std::string file_name(const std::string& path) { return printable(std::filesystem::path(path).filename().string()); }

class Chat {
 public:
  Chat(const Arguments& arguments, bool is_typed)
      : request_(arguments.request),
        color_(use_color(arguments.color)),
        is_typed_(is_typed),
        single_turn_(arguments.single_turn),
        generator_(arguments.generator),
        conversation_((set_template(arguments), generator_), arguments.system) {
    show_notes(generator_);
    generator_.set_cancel_check(interrupted);
    request_.num_draft_tokens = arguments.generator.num_draft_tokens;  // for /set
    if (is_typed_) note(introduction(arguments));
    if (!conversation_.has_template()) {
      note("note: this model has no chat template; it continues the text so far (--chat-template gives it one)\n");
    }
  }

  void run(ChatInput& input, const std::string& first) {
    if (!first.empty()) ask(first);
    while (!has_ended()) {
      const std::optional<std::string> line = input.next();
      if (!line) return;
      if (!input.has_commands()) {
        ask(*line);
        continue;
      }
      const std::size_t space = line->find_first_of(" \n"), rest = line->find_first_not_of(" \n", space);
      const std::string word = line->substr(0, space), argument = rest == std::string::npos ? "" : line->substr(rest);
      if (*line == "exit" || word == "/quit" || word == "/exit") return;
      const auto command = std::find_if(std::begin(commands), std::end(commands), [&](const Command& c) { return word == c.name; });
      if (command != std::end(commands)) {
        (this->*command->run)(argument);
      } else if (word.compare(0, 1, "/") == 0 && (space == std::string::npos || !meant(word).empty())) {
        note("unknown command " + printable(word) + (meant(word).empty() ? "; /help lists the commands" : meant(word)) + "\n");
      } else if (!line->empty()) {
        ask(*line);
      }
    }
  }

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (Chat::*run)(const std::string& argument);
  };
  static const Command commands[10];

  // "; did you mean /set?", or "".
  static std::string meant(const std::string& word) {
    std::vector<std::string> names = {"/quit", "/exit"};
    for (const Command& command : commands) names.emplace_back(command.name);
    return suggestion(word, names);
  }

  bool has_ended() const { return single_turn_ && conversation_.has_answer(); }

  void set_template(const Arguments& arguments) {
    if (arguments.chat_template) generator_.set_chat_template(*arguments.chat_template);
  }

  std::string introduction(const Arguments& arguments) const {
    const std::string draft = to_text(generator_.draft());
    const char* of_template = arguments.chat_template ? "given" : conversation_.has_template() ? "the model's own" : "none";
    const int context = generator_.n_ctx(), trained = generator_.trained_context();
    std::string text = "model    " + file_name(arguments.generator.target) + "\n";
    text += "draft    " + (draft.empty() ? "none" : file_name(draft)) + "\n";
    text += "template " + std::string(of_template) + "\n";
    text += "context  " + counted(context, "token");
    if (context < trained) text += " of the " + std::to_string(trained) + " that the model was trained for (-c)";
    return text + "\n/help lists the commands; Alt-Enter, a \\ at the end or \"\"\" for several lines\n";
  }

  void ask(const std::string& question) {
    conversation_.ask(question);
    if (!respond()) conversation_.forget_turn();
  }

  // Writes an answer, or more of it, until its end or a Ctrl-C; what was written becomes part of the conversation. False: there is no
  // answer, because the question is too long or was interrupted before.
  bool respond() {
    std::string answer;
    std::vector<Token> tokens;
    std::optional<FinishReason> reason;
    bool ended = false;  // by a Ctrl-C, which a terminal echoes
    try {
      const std::size_t left_out = conversation_.num_left_out();
      conversation_.prepare(request_, std::min(request_.max_tokens, generator_.n_ctx() / 4));
      if (left_out == 0 && conversation_.num_left_out() > 0) {
        note("(the context of " + std::to_string(generator_.n_ctx()) + " tokens is full: the oldest turns are left out from now on)\n");
      }
      generator_.start(request_, prompt_progress());
      while (const std::optional<Piece> piece = generator_.next()) {
        write(styled(piece->text, style_of(*piece), color_));
        answer += piece->text;
        tokens.push_back(piece->token);
        reason = piece->finish_reason;
        if (interrupted()) throw Cancelled("interrupted");
      }
    } catch (const Cancelled&) {
      generator_.stop();
      ended = true;
      if (!is_typed_) throw;  // input from a script: end with the error
      clear_interrupt();
    } catch (const ContextFull& error) {
      note(std::string(error.what()) + "; /clear starts a new conversation\n");
      return false;
    } catch (const std::invalid_argument& error) {  // of what /set gave, a grammar perhaps
      note(printable(error.what()) + "; /set changes it\n");
      return false;
    }
    conversation_.add_to_answer(answer, tokens);
    if (ended || answer.empty() || answer.back() != '\n') write("\n");
    if (ended && !conversation_.has_answer()) return false;
    if (reason == FinishReason::context) note("(the context is full (-c); /clear starts a new conversation)\n");
    if (!is_typed_) return true;
    if (ended) note("(stopped; /more goes on)\n");
    if (reason == FinishReason::length) note("(cut at -n " + std::to_string(request_.max_tokens) + "; /more goes on)\n");
    note(styled(summary(), Style::faint, color_));
    tell_of_drafts();
    warn_of_full_context(tokens.size());
    return true;
  }

  std::string summary() const {
    const Stats stats = generator_.stats();
    std::string text = counted(stats.tokens, "token") + format(", %.1f tokens/s", stats.tokens_per_second());
    if (stats.accepted > 0) text += format(", %.1f per target call", stats.tokens_per_target_call());
    const double plain = generator_.plain_seconds_per_token();
    if (has_draft(generator_.draft()) && stats.drafted == 0) text += ", without drafts (/stats says why)";
    const bool is_timed = stats.tokens >= min_timed_tokens && plain > 0.0;
    if (stats.drafted > 0 && is_timed) text += format(", about %.1f times plain decoding", plain * stats.tokens_per_second());
    return text + "\n";
  }

  // Once, as soon as it is measured.
  void tell_of_drafts() {
    const std::string drafting = generator_.drafting();
    if (!has_draft(generator_.draft()) || drafting.compare(0, 3, "off") != 0 || std::exchange(has_told_of_drafts_, true)) return;
    note(styled("(drafts are " + drafting + ")\n", Style::faint, color_));
  }

  void warn_of_full_context(std::size_t answer) {
    const std::size_t used = request_.prompt_tokens.size() + answer, all = static_cast<std::size_t>(generator_.n_ctx());
    if (used * 4 < all * 3 || std::exchange(has_warned_, true)) return;
    note("(" + std::to_string(used) + " of " + std::to_string(all) +
         " tokens of context are used; when they are full, the oldest turns are left out)\n");
  }

  // Commands.

  void help(const std::string&) {
    std::string text;
    for (const Command& command : commands) {
      text += pad(std::string(command.name) + (*command.argument != 0 ? " " : "") + command.argument, 20) + command.help + "\n";
    }
    note(text + pad("/quit, exit, Ctrl-D", 20) + "leave; Ctrl-C stops an answer\n");
  }
  void clear(const std::string&) {
    conversation_.clear();
    has_warned_ = false;
    note("(a new conversation)\n");
  }
  void system(const std::string& text) {
    conversation_.set_system(text);
    has_warned_ = false;
    note(text.empty() ? "(a new conversation without a system prompt)\n" : "(a new conversation with this system prompt)\n");
  }
  void again(const std::string&) {
    if (!conversation_.forget_answer()) note("there is no answer yet\n");
    else respond();
  }
  void more(const std::string&) {
    if (!conversation_.has_answer()) note("there is no answer yet\n");
    else respond();
  }
  void undo(const std::string&) {
    note(conversation_.forget_turn() ? "(the last question and its answer are forgotten)\n" : "there is nothing to undo\n");
  }
  void statistics(const std::string&) { note(statistics_text(generator_.stats(), generator_.drafting())); }
  void save(const std::string& given) {
    if (given.empty()) return note("/save needs the name of a file\n");
    const std::string path = with_home(given);
    try {
      const std::string text = conversation_.to_json(), part = path + ".part";
      File file = File::create(part);
      file.write(0, text.data(), text.size());
      file.close();
      replace_file(part, path);
      note("(saved to " + printable(path) + ")\n");
    } catch (const Error& error) {
      note(printable(path) + ": cannot be written: " + error.what() + "\n");
    }
  }
  void load(const std::string& given) {
    if (given.empty()) return note("/load needs the name of a file\n");
    const std::string path = with_home(given);
    try {
      PromptSource source;
      source.file = path;
      conversation_.from_json(read_prompt(source));
      has_warned_ = false;
      note("(loaded " + printable(path) + ")\n");
    } catch (const Error& error) {
      note(std::string(error.what()) + "\n");
    } catch (const std::invalid_argument& error) {
      note(printable(path) + ": " + error.what() + "\n");
    }
  }
  std::string option_line(const RequestOption& row) const {
    const std::string value = option::text(row.get(request_));
    return pad(row.name, 20) + (value.empty() ? "none" : printable(value)) + "\n";
  }
  // text: JSON, or what the option's text is, so that 5 may be a stop string; "none" for an option that may be absent.
  static void change(Request& request, const RequestOption& option, const std::string& text) {
    using Json = nlohmann::ordered_json;
    if (is_constraint(option)) request.grammar.reset(), request.json_schema.reset(), request.regex.reset();  // the last one counts
    const option::Value absent = option.get(Request{});
    if (text == "none" && option::text(absent).empty()) return option.set(request, absent);
    if (!option.flags.word.empty() && text == option.flags.word) return option.set(request, option.flags.word_value);
    const Json json = Json::parse(text, nullptr, false);
    const bool takes_list = std::holds_alternative<option::Texts>(option.type);
    const bool takes_text = takes_list || std::holds_alternative<option::String>(option.type);
    const bool is_json = !json.is_discarded() && (!takes_text || json.is_string() || (takes_list && json.is_array()));
    set_option(request, option, is_json ? json : Json(text));
  }
  // "NAME VALUE": an option of requests; without a value, shows it; without either, shows all.
  void set(const std::string& text) {
    const std::size_t space = text.find_first_of(" =");
    const RequestOption* option = option::find(request_options(), text.substr(0, space));
    if (option == nullptr) {
      std::string all;
      for (const RequestOption& row : request_options()) all += option_line(row);
      return note((text.empty() ? "" : "/set NAME VALUE, with one of these names:\n") + all);
    }
    if (space == std::string::npos) return note(option_line(*option));
    try {
      Request changed = request_;
      change(changed, *option, text.substr(space + 1));
      changed.prompt = "?";
      changed.validate();
      request_ = changed;
      note(option_line(*option));
    } catch (const std::invalid_argument& error) {
      note(printable(error.what()) + "\n");
    }
  }

  Request request_;
  bool color_, is_typed_, single_turn_;
  bool has_warned_ = false;  // of this conversation's full context
  bool has_told_of_drafts_ = false;
  Generator generator_;
  ChatConversation conversation_;
};

const Chat::Command Chat::commands[] = {
    {"/help", "", "this list", &Chat::help},
    {"/clear", "", "a new conversation", &Chat::clear},
    {"/system", "TEXT", "a new conversation with another system prompt", &Chat::system},
    {"/regen", "", "answer the last question again", &Chat::again},
    {"/more", "", "go on with an answer that was cut", &Chat::more},
    {"/undo", "", "forget the last question and its answer", &Chat::undo},
    {"/stats", "", "statistics of the last answer", &Chat::statistics},
    {"/save", "FILE", "write the conversation as JSON", &Chat::save},
    {"/load", "FILE", "go on with a conversation from such a file", &Chat::load},
    {"/set", "NAME VALUE", "change an option (temperature, ...; \"none\" takes it back); no name: show all", &Chat::set},
};

}  // namespace

int run_chat(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.request.max_tokens = 512;
  const CommandLine line = command_line(arguments);
  if (const Help help = parse(line, argc, argv).help; help != Help::none) {
    write(help_text(line, help));
    return 0;
  }
  arguments.request.prompt = "?";
  arguments.request.validate();  // before models are loaded
  resolve_models(arguments.generator);
  const bool has_first = arguments.first.text || arguments.first.file;
  const std::string first = has_first ? read_prompt(arguments.first) : "";
  ChatInput input(arguments.keeps_history ? history_path("chat.jsonl") : "", arguments.by_line);
  // Text at a terminal would be waited for, unseen where the output goes to a file.
  if (has_first && input_is_terminal() && !input.is_typed()) arguments.single_turn = true;
  Chat chat(arguments, input.is_typed());  // loads the models; a Ctrl-C during that ends the program
  catch_interrupts();
  chat.run(input, first);
  return 0;
}

}  // namespace specdec::cli
