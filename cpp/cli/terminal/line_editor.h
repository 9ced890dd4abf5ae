// Reads text from a terminal that can place its cursor (screen.h): with arrow keys, history, and pastes of any length.
// The terminal is raw as long as the editor exists, so that what is typed or pasted while nobody reads is neither shown
// nor taken for commands.
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
  // text: what stands before the cursor. Without candidates Tab is a tab.
  using Completer = std::function<Completion(const std::string& text)>;

  explicit LineEditor(InputHistory& history) : history_(history) {}
  void set_completer(Completer completer) { completer_ = std::move(completer); }

  // Text of one line, or several: Alt-Enter, a "\" at the end of the line and pastes add lines; after a line of """,
  // Enter does too, until a line that ends with """. Null at Ctrl-D on empty text or the end of input. Ctrl-C drops the
  // text and calls interrupted(). Tab completes; Ctrl-R searches the history while text is typed: Ctrl-R again finds an
  // older entry, Ctrl-G gives up, and any other key takes what was found. After catch_interrupts()
  // (platform/interrupt.h). Begins with the draft.
  std::optional<std::string> read(const std::string& prompt, const std::function<void()>& interrupted);

  // Adds what was typed since the last read() to the draft of the next one; Enter adds a line. Never waits. To be
  // called often while the program works, or the terminal's queue fills up and a Ctrl-C waits behind it.
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
  EditBuffer buffer_;  // between reads, the draft
  bool has_ended_ = false;
  std::size_t place_ = 0;                        // of the recalled entry; the number of entries: none
  std::string unfinished_;                       // what was being typed when an entry was recalled
  std::optional<std::string> query_;             // of the search in the history that is under way
  bool has_found_ = false;                       // it
  std::size_t rows_above_ = 0, rows_below_ = 0;  // of the drawing, around the cursor
};

}  // namespace specdec::cli
