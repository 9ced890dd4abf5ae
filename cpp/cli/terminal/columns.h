// Lays text out in columns of a terminal. Widths are in terminal cells: wide characters take two, combining marks none,
// tabs extend to the next tab stop, control characters are shown as escapes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/color.h"

namespace specdec::cli {

constexpr int tab_stop = 8;  // cells

// Number of cells of a character; 0 for combining and invisible ones.
int cell_width(char32_t character);

class ColumnText {
 public:
  // text: UTF-8, complete characters.
  void add(std::string_view text, Style style);

  // Breaks lines after `width` cells (at least 2): at a blank if there is one in the last third, which suits prose and
  // code. Every line is padded to exactly that width and starts and ends its own colours.
  std::vector<std::string> lines(int width, bool color) const;

 private:
  struct Glyph {
    std::string bytes;  // a character with its combining marks, or "\n", "\t"
    int width;
    Style style;
  };
  struct Row {
    std::size_t end;                  // of its glyphs
    std::optional<std::size_t> next;  // where the next line begins; nullopt: this is the last one
  };
  static int cells(const Glyph& glyph, int used, int width);  // after `used` cells of a row
  Row row(std::size_t begin, int width) const;

  std::vector<Glyph> glyphs_;
};

// One line of ASCII, cut or padded to `width` cells.
std::string column_line(const std::string& text, int width, Style style, bool color);

}  // namespace specdec::cli
