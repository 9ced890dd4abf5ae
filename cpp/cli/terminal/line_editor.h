// Reads text from a terminal that can place its cursor (screen.h): with arrow keys, history, and pastes of any length.
// The terminal is raw as long as the editor exists, so that text typed or pasted while nobody reads is neither shown
// nor taken as commands.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "cli/terminal/completion.h"
#include "cli/terminal/edit_buffer.h"
#include "cli/terminal/input_history.h"
#include "cli/terminal/keys.h"
#include "platform/console.h"

namespace specdec::cli {

class LineEditor {
 public:
  // text: the text before the cursor. Without candidates, Tab inserts a tab.
  using Completer = std::function<Completion(const std::string& text)>;

  explicit LineEditor(InputHistory& history) : history_(history) {}
  void set_completer(Completer completer) { completer_ = std::move(completer); }

  // Reads one or several lines, beginning with the draft. Alt-Enter, a "\" at the end of a line and pastes add lines;
  // after a line of """, Enter also does until a line that ends with """. Returns nullopt at Ctrl-D on empty text or at
  // the end of input. Ctrl-C drops the text and calls interrupted(). Tab completes. Ctrl-R searches the history for
  // typed text: Ctrl-R again finds an older entry, Ctrl-G gives up, and any other key accepts the result. Needs
  // catch_interrupts() (platform/interrupt.h).
  std::optional<std::string> read(const std::string& prompt, const std::function<void()>& interrupted);

  // Adds what was typed since the last read() to the draft of the next one; Enter adds a line. Never waits. To be
  // called often while the program works: otherwise the terminal's queue fills up and Ctrl-C waits behind it.
  void keep_typed();
  // The draft of the next read() begins with this text.
  void put_back(const std::string& text) { buffer_.set(buffer_.text().empty() ? text : text + "\n" + buffer_.text()); }

 private:
  enum class Outcome { goes_on, done, ended, interrupted, suspended };
  void edit(const KeyPress& key);
  Outcome press(const KeyPress& key);
  void complete();
  void begin_search();
  bool press_in_search(const KeyPress& key);
  void find(std::size_t before);
  Outcome enter();
  void recall(std::size_t place);
  std::string search_status(std::size_t width) const;
  void draw();
  void leave_drawing();

  InputHistory& history_;
  RawInput raw_;
  KeyDecoder decoder_;
  Completer completer_;
  std::string prompt_;
  EditBuffer buffer_;  // between reads: the draft
  bool has_ended_ = false;
  std::size_t place_ = 0;                        // of the recalled entry; the number of entries: none
  std::string unfinished_;                       // the text being typed when an entry was recalled
  std::optional<std::string> query_;             // of the current search in the history
  bool has_found_ = false;                       // an entry has the query
  std::size_t rows_above_ = 0, rows_below_ = 0;  // of the drawing, around the cursor
};

}  // namespace specdec::cli
