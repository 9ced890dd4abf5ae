// Decodes the bytes that a terminal in raw mode sends: UTF-8 text, control characters and escape sequences (ECMA-48,
// xterm).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace specdec::cli {

enum class Key {
  text,
  enter,     // also a line feed, which ends lines typed before raw mode
  new_line,  // Alt-Enter
  backspace,
  erase,
  left,
  right,
  up,
  down,
  home,
  end,
  word_left,
  word_right,
  erase_word,
  erase_to_start,
  erase_to_end,
  clear_screen,
  complete,      // Tab
  search,        // Ctrl-R
  cancel,        // Ctrl-G
  interrupt,     // Ctrl-C
  end_of_input,  // Ctrl-D
  suspend,       // Ctrl-Z
};

struct KeyPress {
  Key key;
  std::string text;  // for Key::text: one or more characters of valid UTF-8, or a paste with lines that end with "\n"
};

class KeyDecoder {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  // Nullopt if the next key is incomplete. Sequences for other keys are dropped.
  std::optional<KeyPress> next();

 private:
  bool decode(std::optional<KeyPress>& key);
  bool decode_escape(std::optional<KeyPress>& key);
  bool decode_paste(std::optional<KeyPress>& key);
  std::string take(std::size_t count);

  std::string bytes_;
  std::size_t searched_ = 0;  // bytes of a paste known not to hold its end
};

}  // namespace specdec::cli
