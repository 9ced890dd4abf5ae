// Breaks lines between words while text arrives piece by piece. Code blocks (``` or four blanks) stay unchanged, so
// that they can be copied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/color.h"

namespace specdec::cli {

class WordWrap {
 public:
  // What to send to a terminal of `width` cells for the next piece of text (UTF-8). A word that does not fit is erased
  // and written again in the next line.
  std::string add(std::string_view text, Style style, bool color, int width);

 private:
  struct Glyph {
    std::string bytes;
    int cells;
    Style style;
  };
  bool keeps_line() const;
  void put(const Glyph& glyph);
  void end_line();

  std::string out_;
  Style style_ = Style::plain;
  bool color_ = false;
  std::string line_;         // the text since its last newline
  int column_ = 0;           // cells used in the terminal's row
  std::vector<Glyph> word_;  // the end of the row, since the last blank
  int word_cells_ = 0;
  bool in_block_ = false;
};

}  // namespace specdec::cli
