// Text set in the columns of a terminal. Widths are counted in the terminal's cells: wide characters take two, combining
// marks none, tabs run to the next multiple of 8, control characters are shown as escapes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specdec::cli {

enum class Style { plain, green, faint, bold };

// Cells that a character takes; 0 for those that join another one and for invisible ones.
int cell_width(char32_t character);

class ColumnText {
 public:
  // UTF-8, whole characters.
  void add(std::string_view text, Style style);

  // Broken anywhere after `width` cells (at least 2), as code is best read; each line is filled up to exactly that, with
  // its colours, if any, beginning and ending in it.
  std::vector<std::string> lines(int width, bool color) const;

 private:
  struct Glyph {
    std::string bytes;  // a character and what joins it; "\n", "\t" stand for themselves
    int width;
    Style style;
  };
  std::vector<Glyph> glyphs_;
};

// One line of ASCII, cut or filled to `width` cells.
std::string column_line(const std::string& text, int width, Style style, bool color);

}  // namespace specdec::cli
