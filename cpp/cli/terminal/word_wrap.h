// Breaks lines between words while text arrives piece by piece. What stands in a code block (``` or four blanks) is
// left as it is, so that it can be copied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/color.h"

namespace specdec::cli {

class WordWrap {
 public:
  // What a terminal of `width` cells is to be sent for the next piece of text, UTF-8. A word that does not fit is
  // erased and written again in the next line.
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
  std::string line_;         // since the last newline of the text
  int column_ = 0;           // cells used in the terminal's row
  std::vector<Glyph> word_;  // the end of the row, since the last blank
  int word_cells_ = 0;
  bool in_block_ = false;
};

}  // namespace specdec::cli
