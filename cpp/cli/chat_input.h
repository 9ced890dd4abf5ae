// The user's input in a chat: typed at a terminal, or piped.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cli/terminal/input_history.h"
#include "cli/terminal/line_editor.h"

namespace specdec::cli {

class ChatInput {
 public:
  // history_file: keeps typed text between runs; "": none. by_line: every line of piped input is a message; otherwise
  // the whole input is one. At a terminal that cannot place its cursor, every line is a message.
  ChatInput(const std::string& history_file, bool by_line);

  bool is_typed() const { return terminal_; }
  bool has_commands() const { return by_line_; }  // a line that begins with "/" may be a command
  // The next message or command, in valid UTF-8 without the last newline; nullopt at the end of input. Ctrl-C discards
  // a typed line; with piped input it throws Cancelled. Piped input that is no UTF-8 text is an Error.
  std::optional<std::string> next();

  // Keeps what is typed while nobody reads as the draft of the next message. To be called often meanwhile; never waits.
  void keep_typed() {
    if (editor_) editor_->keep_typed();
  }
  void set_completer(LineEditor::Completer completer) {
    if (editor_) editor_->set_completer(std::move(completer));
  }
  void put_back(const std::string& text) {
    if (editor_) editor_->put_back(text);
  }

 private:
  std::optional<std::string> next_edited();
  std::optional<std::string> next_line();
  std::optional<std::string> rest();
  bool read_more();

  bool terminal_, by_line_;
  InputHistory history_;
  std::optional<LineEditor> editor_;  // only where lines can be edited
  std::string bytes_;
  std::size_t num_lines_ = 0;
  bool ended_ = false;
};

}  // namespace specdec::cli
