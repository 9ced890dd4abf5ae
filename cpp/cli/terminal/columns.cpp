#include "cli/terminal/columns.h"

#include <algorithm>
#include <cstdint>

#include "base/index.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Combining marks and invisible characters: zero-width and direction marks, variation selectors.
constexpr Range without_width[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},  {0x0900, 0x0902},
    {0x093a, 0x093a}, {0x093c, 0x093c}, {0x0941, 0x0948}, {0x094d, 0x094d}, {0x0e31, 0x0e31},  {0x0e34, 0x0e3a},
    {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
    {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0000, 0xe0fff}};

// East Asian wide and full-width characters, and pictographs.
constexpr Range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
    {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
    {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
    {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f64f}, {0x1f680, 0x1f6ff},
    {0x1f7e0, 0x1f7eb}, {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <std::size_t count>
bool contains(const Range (&ranges)[count], char32_t character) {
  const Range* after = std::upper_bound(std::begin(ranges), std::end(ranges), character,
                                        [](char32_t value, const Range& range) { return value < range.first; });
  return after != std::begin(ranges) && character <= (after - 1)->last;
}

// A line that is being filled.
class Line {
 public:
  Line(int width, bool color) : width_(width), color_(color) {}

  int used() const { return used_; }
  void put(const std::string& bytes, int cells, Style style) {
    if (color_ && style != style_) {
      text_ += (style_ == Style::plain ? "" : plain_code) + std::string(style_code(style));
      style_ = style;
    }
    text_ += bytes;
    used_ += cells;
  }
  std::string finish() {
    put(std::string(idx(width_ - used_), ' '), width_ - used_, Style::plain);
    return text_;
  }

 private:
  int width_;
  bool color_;
  std::string text_;
  int used_ = 0;
  Style style_ = Style::plain;
};

}  // namespace

int cell_width(char32_t character) {
  return contains(without_width, character) ? 0 : contains(wide, character) ? 2 : 1;
}

void ColumnText::add(std::string_view text, Style style) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string bytes(text.substr(at, utf8_length(text[at])));
    at += bytes.size();
    if (bytes == "\n" || bytes == "\t") {
      glyphs_.push_back({bytes, 1, style});
      continue;
    }
    const std::string shown = printable(bytes);
    if (shown != bytes) {
      for (const char letter : shown) glyphs_.push_back({std::string(1, letter), 1, style});
      continue;
    }
    const char32_t character = utf8_character(bytes, 0);
    const int width = cell_width(character);
    if (width > 0) {
      glyphs_.push_back({bytes, width, style});
    } else if (character < 0x2000 && !glyphs_.empty() && glyphs_.back().bytes != "\n" && glyphs_.back().bytes != "\t") {
      glyphs_.back().bytes += bytes;
    }  // other controls are dropped: terminals disagree about them
  }
}

int ColumnText::cells(const Glyph& glyph, int used, int width) {
  return glyph.bytes == "\t" ? std::min(tab_stop - used % tab_stop, std::max(width - used, 1)) : glyph.width;
}

ColumnText::Row ColumnText::row(std::size_t begin, int width) const {
  std::size_t after_blank = begin;  // after a blank in the last third of the row
  int used = 0;
  for (std::size_t at = begin; at < glyphs_.size(); ++at) {
    const Glyph& glyph = glyphs_[at];
    if (glyph.bytes == "\n") return {at, at + 1};
    const int more = cells(glyph, used, width);
    if (used + more > width) {
      if (glyph.bytes == " ") return {at, at + 1};
      const std::size_t end = after_blank > begin ? after_blank : at;
      return {end, end};
    }
    used += more;
    if (glyph.bytes == " " && used > width - width / 3) after_blank = at + 1;
  }
  return {glyphs_.size(), std::nullopt};
}

std::vector<std::string> ColumnText::lines(int width, bool color) const {
  std::vector<std::string> result;
  for (std::optional<std::size_t> begin = 0; begin;) {
    const Row next = row(*begin, width);
    Line line(width, color);
    for (std::size_t at = *begin; at < next.end; ++at) {
      const Glyph& glyph = glyphs_[at];
      const int count = cells(glyph, line.used(), width);
      line.put(glyph.bytes == "\t" ? std::string(idx(count), ' ') : glyph.bytes, count, glyph.style);
    }
    result.push_back(line.finish());
    begin = next.next;
  }
  return result;
}

std::string column_line(const std::string& text, int width, Style style, bool color) {
  Line line(width, color);
  line.put(text.substr(0, idx(width)), static_cast<int>(std::min(text.size(), idx(width))), style);
  return line.finish();
}

}  // namespace specdec::cli
