#include "cli/terminal/word_wrap.h"

#include <utility>

#include "base/utf8.h"
#include "cli/terminal/columns.h"

namespace specdec::cli {

bool WordWrap::keeps_line() const {
  const auto begins_with = [&](const char* text) { return line_.rfind(text, 0) == 0; };
  return in_block_ || begins_with("    ") || begins_with("\t") || begins_with("```") || begins_with("|");
}

void WordWrap::put(const Glyph& glyph) {
  if (color_ && glyph.style != style_) {
    out_ += (style_ == Style::plain ? "" : plain_code) + std::string(style_code(glyph.style));
    style_ = glyph.style;
  }
  out_ += glyph.bytes;
}

void WordWrap::end_line() {
  const std::size_t start = line_.find_first_not_of(' ');
  if (start != std::string::npos && line_.compare(start, 3, "```") == 0) in_block_ = !in_block_;
  line_.clear();
  word_.clear();
  word_cells_ = column_ = 0;
}

std::string WordWrap::add(std::string_view text, Style style, bool color, int width) {
  out_.clear();
  color_ = color;
  for (std::size_t at = 0; at < text.size();) {
    const std::string bytes(text.substr(at, utf8_length(text[at])));
    at += bytes.size();
    const int cells = bytes == "\t" ? tab_stop - column_ % tab_stop : cell_width(utf8_character(bytes, 0));
    const Glyph glyph{bytes, cells, style};
    if (bytes == "\n") {
      put(glyph);
      end_line();
      continue;
    }
    line_ += bytes;
    const bool is_blank = bytes == " " || bytes == "\t", is_wide = cells == 2;
    const bool is_full = column_ + cells >= width;  // the last cell stays free: after writing it, the cursor would
                                                    // still be in it
    if (is_full && !keeps_line() && (is_blank || is_wide || word_cells_ < column_)) {
      if (!is_blank && word_cells_ > 0) out_ += "\x1b[" + std::to_string(word_cells_) + "D\x1b[K";
      out_ += "\n";
      column_ = 0;
      if (is_blank) {
        word_.clear();
        word_cells_ = 0;
        continue;
      }
      for (const Glyph& letter : word_) put(letter);
      column_ = word_cells_;
    }
    put(glyph);
    column_ = column_ + cells > width ? cells : column_ + cells;
    if (is_blank || is_wide) {
      word_.clear();
      word_cells_ = 0;
    } else {
      word_.push_back(glyph);
      word_cells_ += cells;
    }
  }
  if (style_ != Style::plain) out_ += plain_code;
  style_ = Style::plain;
  return std::move(out_);
}

}  // namespace specdec::cli
