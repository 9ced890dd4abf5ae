#include "cli/commands/chat.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/shared_options.h"
#include "cli/statistics.h"
#include "cli/terminal/color.h"
#include "cli/terminal/output.h"
#include "engine/generator.h"
#include "llama/chat_template.h"
#include "platform/console.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

struct Arguments {
  GeneratorOptions generator;
  Request request;
  std::string system, chat_template, color = "auto";  // chat_template: a name; empty: the model's own
};

Option template_option(std::string& chat_template) {
  const std::vector<std::string> names = chat_template_names();
  std::string help = "built-in template of llama.cpp to use instead of the model's own:";
  for (const std::string& name : names) help += (&name == &names.front() ? " " : ", ") + name;
  Option option = choice({"--chat-template"}, names, chat_template, help);
  option.value = "NAME";  // shown instead of all names
  return option;
}

CommandLine command_line(Arguments& arguments) {
  CommandLine line;
  line.command = "specdec chat";
  line.arguments = "[options]";
  line.about =
      "Answers each line of standard input, using the model's own chat template or a named one; without a template the model "
      "continues the text so far. The conversation stays in the KV caches, so that only new messages are processed. Ctrl-C "
      "stops an answer; /clear starts a new conversation, /stats prints the statistics of the last answer, /quit or the end of "
      "input exits.";
  line.positional_hint = "; write to standard input";
  line.groups = {
      {"Text",
       {text({"-sys", "--system-prompt"}, "TEXT", arguments.system, "system prompt"), template_option(arguments.chat_template),
        predict_option(arguments.request, 1, "maximum number of tokens per answer; -1: until the model ends it or the context is full"),
        stop_option(arguments.request, "stop string: ends an answer, which does not include it; repeatable")}},
      model_group(arguments.generator),
      sampling_group(arguments.request),
      {"Output", {color_option(arguments.color)}},
  };
  return line;
}

// Reads lines of standard input. At a terminal, writes a prompt, and a Ctrl-C restarts the line.
class Lines {
 public:
  // Nullopt at the end of input. The last line may lack its newline.
  std::optional<std::string> next() {
    if (terminal_) write("> ");
    while (true) {
      const std::size_t end = bytes_.find('\n');
      if (end != std::string::npos) return take(end, end + 1);
      if (!wait_for_input()) {
        if (!terminal_) throw Cancelled("interrupted");
        clear_interrupt();
        write("\n(/quit or Ctrl-D exits)\n> ");
        continue;
      }
      char chunk[4096];
      const std::optional<std::size_t> count = read_input(chunk, sizeof chunk);
      if (!count) continue;
      bytes_.append(chunk, *count);
      if (*count > 0) continue;
      if (bytes_.empty()) return std::nullopt;
      return take(bytes_.size(), bytes_.size());
    }
  }

 private:
  std::string take(std::size_t length, std::size_t drop) {
    const std::string line = bytes_.substr(0, length);
    bytes_.erase(0, drop);
    return valid_utf8(!line.empty() && line.back() == '\r' ? line.substr(0, length - 1) : line);
  }

  bool terminal_ = input_is_terminal() && output_is_terminal();
  std::string bytes_;
};

// The conversation so far, as a prompt.
class History {
 public:
  // chat_template: a name; empty: the model's own, if it has one. Throws ModelError for an unusable template.
  History(const Generator& generator, const std::string& chat_template, const std::string& system)
      : generator_(&generator), chat_template_(chat_template), system_(system) {
    clear();
    if (has_template()) (void)in_template({{"user", "?"}});
  }

  bool has_template() const { return !chat_template_.empty() || generator_->has_chat_template(); }

  void clear() {
    text_ = system_;
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  // The prompt for the answer to this line.
  std::string ask(const std::string& line) {
    if (!has_template()) {
      text_ += (text_.empty() ? "" : "\n") + line;
      return text_;
    }
    messages_.push_back({"user", line});
    return in_template(messages_);
  }
  void answer(const std::string& answer) {
    text_ += answer;
    messages_.push_back({"assistant", answer});
  }

 private:
  std::string in_template(const std::vector<ChatMessage>& messages) const {
    return chat_template_.empty() ? generator_->chat_prompt(messages) : apply_chat_template(chat_template_, messages);
  }

  const Generator* generator_;
  std::string chat_template_, system_, text_;
  std::vector<ChatMessage> messages_;
};

class Chat {
 public:
  explicit Chat(const Arguments& arguments)
      : request_(arguments.request),
        color_(use_color(arguments.color)),
        generator_(arguments.generator),
        history_(generator_, arguments.chat_template, arguments.system) {
    show_notes(generator_);
    generator_.set_cancel_check(interrupted);
    if (!history_.has_template()) {
      note("note: this model has no chat template; it continues the text so far (--chat-template names one)\n");
    }
  }

  void run() {
    Lines lines;
    while (const std::optional<std::string> line = lines.next()) {
      if (*line == "/quit" || *line == "/exit") return;
      if (*line == "/clear") {
        history_.clear();
      } else if (*line == "/stats") {
        note(statistics_text(generator_.stats()));
      } else if (!line->empty() && line->front() == '/' && line->find(' ') == std::string::npos) {
        note("unknown command " + printable(*line) + "; the commands are /clear, /stats and /quit\n");
      } else if (!line->empty()) {
        respond(*line);
      }
    }
  }

 private:
  // Writes an answer until its end or a Ctrl-C; the written text becomes part of the conversation.
  void respond(const std::string& line) {
    const History before = history_;
    request_.prompt = history_.ask(line);
    std::string answer;
    bool ended = false;  // by a Ctrl-C, which a terminal echoes
    try {
      generator_.start(request_);
      while (const std::optional<Piece> piece = generator_.next()) {
        write(styled(piece->text, draft_style(piece->from_draft), color_));
        answer += piece->text;
        if (interrupted()) throw Cancelled("interrupted");
        if (piece->finish_reason == FinishReason::context) note("\nthe context is full (-c); /clear starts a new conversation\n");
      }
    } catch (const Cancelled&) {
      generator_.stop();
      ended = true;
      if (!input_is_terminal()) throw;  // input from a script: end with the error
      clear_interrupt();
    } catch (const ContextFull& error) {
      note(std::string(error.what()) + "; /clear starts a new conversation\n");
      history_ = before;
      return;
    }
    history_.answer(answer);
    if (ended || answer.empty() || answer.back() != '\n') write("\n");
  }

  Request request_;
  bool color_;
  Generator generator_;
  History history_;
};

}  // namespace

int run_chat(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.request.max_tokens = 512;
  const CommandLine line = command_line(arguments);
  if (parse(line, argc, argv).help) {
    write(help_text(line));
    return 0;
  }
  arguments.request.prompt = "?";
  arguments.request.validate();  // before models are loaded
  resolve_models(arguments.generator);
  Chat chat(arguments);  // loads the models; a Ctrl-C during that ends the program
  catch_interrupts();
  chat.run();
  return 0;
}

}  // namespace specdec::cli
