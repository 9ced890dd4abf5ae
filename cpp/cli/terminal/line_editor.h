// Reads text from a terminal: with arrow keys, history, and pastes of any length. One that can place its cursor (screen.h).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "cli/terminal/edit_buffer.h"
#include "cli/terminal/input_history.h"
#include "cli/terminal/keys.h"

namespace specdec::cli {

class LineEditor {
 public:
  explicit LineEditor(InputHistory& history) : history_(history) {}

  // Text of one line, or several: Alt-Enter, a "\" at the end of the line and pastes add lines; after a line of """, Enter does
  // too, until a line that ends with """. Null at Ctrl-D on empty text or the end of input. Ctrl-C drops the text and calls
  // interrupted(). After catch_interrupts() (platform/interrupt.h).
  std::optional<std::string> read(const std::string& prompt, const std::function<void()>& interrupted);

 private:
  enum class Outcome { goes_on, done, ended, interrupted, suspended };
  Outcome press(const KeyPress& key);
  Outcome enter();
  void recall(std::size_t place);
  void draw(const std::string& prompt);
  void leave_drawing();

  InputHistory& history_;
  KeyDecoder decoder_;  // keeps what was typed ahead
  EditBuffer buffer_;
  std::size_t place_ = 0;                        // of the recalled entry; the number of entries: none
  std::string unfinished_;                       // what was being typed when an entry was recalled
  std::size_t rows_above_ = 0, rows_below_ = 0;  // of the drawing, around the cursor
};

}  // namespace specdec::cli
