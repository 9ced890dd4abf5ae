// What a user says in a chat: typed at a terminal, or piped.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cli/terminal/input_history.h"
#include "cli/terminal/line_editor.h"

namespace specdec::cli {

class ChatInput {
 public:
  // history_file: keeps what is typed between runs; "": nothing does. by_line: every line of piped input is a message;
  // otherwise all of it is one. At a terminal that cannot place its cursor, every line is one.
  ChatInput(const std::string& history_file, bool by_line);

  bool is_typed() const { return terminal_; }
  bool has_commands() const { return by_line_; }  // a line that begins with "/" may be one
  // The next message or command, valid UTF-8 without the last line's end; null at the end of input. A Ctrl-C starts a
  // typed line again; with piped input it throws Cancelled.
  std::optional<std::string> next();

  // What is typed while nobody reads is the draft of the next message; to be called often meanwhile. Never waits.
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
  std::optional<LineEditor> editor_;  // where lines can be edited
  std::string bytes_;
  bool ended_ = false;
};

}  // namespace specdec::cli
