#include "cli/commands/chat.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/prompt.h"
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
  std::optional<ChatTemplate> chat_template;  // null: the model's own
  std::string system, color = "auto";
  bool jinja = true;
};

Option template_option(std::optional<ChatTemplate>& chat_template) {
  std::string names;
  for (const std::string& name : chat_template_names()) names += (names.empty() ? "" : ", ") + name;
  const auto set = [&chat_template, names](const std::string& text) {
    try {
      chat_template = ChatTemplate(text, "--chat-template");
    } catch (const std::invalid_argument&) {
      throw UsageError("expected the text of a Jinja template or one of " + names + ", got \"" + printable(text) + "\"");
    }
  };
  return {
      {"--chat-template"},
      "NAME|TEXT",
      "Jinja template to use instead of the model's own, or one of llama.cpp's built-in formats, which have no default system prompts: " +
          names,
      set};
}

Option template_file_option(std::optional<ChatTemplate>& chat_template) {
  const auto set = [&chat_template](const std::string& path) {
    PromptSource file;
    file.file = path;
    const std::string text = read_prompt(file);
    try {
      chat_template = ChatTemplate(text, path);
    } catch (const std::invalid_argument&) {
      throw UsageError("expected a file with a Jinja template, got \"" + printable(path) + "\", which has neither {{ nor {%");
    }
  };
  return {{"--chat-template-file"}, "FILE", "file with a Jinja template to use instead of the model's own", set};
}

CommandLine command_line(Arguments& arguments) {
  CommandLine line;
  line.command = "specdec chat";
  line.arguments = "[options]";
  line.about =
      "Answers each line of standard input, using the model's own chat template or another one; without a template the model "
      "continues the text so far. The conversation stays in the KV caches, so that only new messages are processed. Ctrl-C "
      "stops an answer; /clear starts a new conversation, /stats prints the statistics of the last answer, /quit or the end of "
      "input exits.";
  line.positional_hint = "; write to standard input";
  line.groups = {
      {"Text",
       {text({"-sys", "--system-prompt"}, "TEXT", arguments.system, "system prompt"), template_option(arguments.chat_template),
        template_file_option(arguments.chat_template),
        flag({"--jinja"}, arguments.jinja, "accepted because llama.cpp has it; templates are always run as Jinja"),
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
  // Throws ModelError if the template cannot be used.
  History(const Generator& generator, const std::string& system) : generator_(&generator), system_(system) {
    clear();
    if (!has_template()) return;
    std::vector<ChatMessage> first = messages_;
    first.push_back({"user", "?"});
    (void)generator_->chat_prompt(conversation(first));
  }

  bool has_template() const { return generator_->has_chat_template(); }

  void clear() {
    text_ = system_;
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_});
  }
  // Makes the answer to this line what is requested. Throws ContextFull, ModelError.
  void ask(const std::string& line, Request& request) {
    if (!has_template()) {
      text_ += (text_.empty() ? "" : "\n") + line;
      request.prompt = text_;
      return;
    }
    messages_.push_back({"user", line});
    request.prompt.clear();
    request.prompt_tokens = generator_->chat_tokens(conversation(messages_));
  }
  void answer(const std::string& answer) {
    text_ += answer;
    messages_.push_back({"assistant", answer});
  }

 private:
  const Generator* generator_;
  std::string system_, text_;
  std::vector<ChatMessage> messages_;
};

class Chat {
 public:
  explicit Chat(const Arguments& arguments)
      : request_(arguments.request),
        color_(use_color(arguments.color)),
        generator_(arguments.generator),
        history_((set_template(arguments), generator_), arguments.system) {
    show_notes(generator_);
    generator_.set_cancel_check(interrupted);
    if (!history_.has_template()) {
      note("note: this model has no chat template; it continues the text so far (--chat-template gives it one)\n");
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
  void set_template(const Arguments& arguments) {
    if (arguments.chat_template) generator_.set_chat_template(*arguments.chat_template);
  }

  // Writes an answer until its end or a Ctrl-C; the written text becomes part of the conversation.
  void respond(const std::string& line) {
    const History before = history_;
    std::string answer;
    bool ended = false;  // by a Ctrl-C, which a terminal echoes
    try {
      history_.ask(line, request_);
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
