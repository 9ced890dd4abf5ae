// Text of one or several lines that is being edited, with a cursor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace specdec::cli {

class EditBuffer {
 public:
  const std::string& text() const { return text_; }  // valid UTF-8
  std::size_t cursor() const { return cursor_; }     // in bytes, between characters

  void set(std::string text);  // the cursor goes to the end
  void insert(std::string_view text);

  // Move or delete by a character with its combining marks, or by a word; at an end of the text they do nothing.
  void left();
  void right();
  void word_left();
  void word_right();
  void backspace();
  void erase();
  void erase_word();
  // Within a line.
  void home();
  void end();
  void erase_to_start();
  void erase_to_end();
  // Between lines; false in the first or last line.
  bool up();
  bool down();

 private:
  std::size_t before(std::size_t at) const;
  std::size_t after(std::size_t at) const;
  std::size_t word_before(std::size_t at) const;
  std::size_t line_start(std::size_t at) const;
  std::size_t line_end(std::size_t at) const;
  std::size_t in_line(std::size_t start, std::size_t characters) const;
  void erase(std::size_t from, std::size_t to);

  std::string text_;
  std::size_t cursor_ = 0;
};

// The text as rows of a terminal of `width` cells. Lines that are too long are broken, not necessarily between words;
// tabs become spaces.
struct EditLayout {
  std::vector<std::string> rows;  // the first begins with `prompt`, the first row of every other line with as many
                                  // spaces
  std::size_t cursor_row;
  int cursor_cell;
};
EditLayout layout(const EditBuffer& buffer, const std::string& prompt, int width);

}  // namespace specdec::cli
