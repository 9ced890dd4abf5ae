#include "cli/terminal/edit_buffer.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"
#include "cli/terminal/columns.h"

namespace specdec::cli {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n'; }

}  // namespace

void EditBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void EditBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void EditBuffer::erase(std::size_t from, std::size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

std::size_t EditBuffer::after(std::size_t at) const {
  if (at == text_.size()) return at;
  do at += utf8_length(text_[at]);
  while (at < text_.size() && text_[at] != '\n' && cell_width(utf8_character(text_, at)) == 0);
  return at;
}

std::size_t EditBuffer::before(std::size_t at) const {
  while (at > 0) {
    do --at;
    while (at > 0 && (text_[at] & 0xc0) == 0x80);
    if (cell_width(utf8_character(text_, at)) > 0) break;
  }
  return at;
}

std::size_t EditBuffer::word_before(std::size_t at) const {
  while (at > 0 && is_blank(text_[at - 1])) --at;
  while (at > 0 && !is_blank(text_[at - 1])) --at;
  return at;
}

// If there is no newline before `at`, rfind returns npos, and npos + 1 is 0.
std::size_t EditBuffer::line_start(std::size_t at) const { return at == 0 ? 0 : text_.rfind('\n', at - 1) + 1; }
std::size_t EditBuffer::line_end(std::size_t at) const { return std::min(text_.find('\n', at), text_.size()); }

// The place after this many characters of the line that begins at `start`, or the line's end.
std::size_t EditBuffer::in_line(std::size_t start, std::size_t characters) const {
  const std::size_t end = line_end(start);
  for (; characters > 0 && start < end; --characters) start = after(start);
  return start;
}

void EditBuffer::left() { cursor_ = before(cursor_); }
void EditBuffer::right() { cursor_ = after(cursor_); }
void EditBuffer::word_left() { cursor_ = word_before(cursor_); }
void EditBuffer::word_right() {
  while (cursor_ < text_.size() && is_blank(text_[cursor_])) ++cursor_;
  while (cursor_ < text_.size() && !is_blank(text_[cursor_])) ++cursor_;
}
void EditBuffer::backspace() { erase(before(cursor_), cursor_); }
void EditBuffer::erase() { erase(cursor_, after(cursor_)); }
void EditBuffer::erase_word() { erase(word_before(cursor_), cursor_); }
void EditBuffer::home() { cursor_ = line_start(cursor_); }
void EditBuffer::end() { cursor_ = line_end(cursor_); }
void EditBuffer::erase_to_start() { erase(line_start(cursor_), cursor_); }
void EditBuffer::erase_to_end() { erase(cursor_, line_end(cursor_)); }

bool EditBuffer::up() {
  const std::size_t start = line_start(cursor_);
  if (start == 0) return false;
  std::size_t characters = 0;
  for (std::size_t at = start; at < cursor_; at = after(at)) ++characters;
  cursor_ = in_line(line_start(start - 1), characters);
  return true;
}

bool EditBuffer::down() {
  const std::size_t end = line_end(cursor_);
  if (end == text_.size()) return false;
  std::size_t characters = 0;
  for (std::size_t at = line_start(cursor_); at < cursor_; at = after(at)) ++characters;
  cursor_ = in_line(end + 1, characters);
  return true;
}

EditLayout layout(const EditBuffer& buffer, const std::string& prompt, int width) {
  const std::string& text = buffer.text();
  const std::string indent(prompt.size(), ' ');
  EditLayout result{{prompt}, 0, 0};
  int used = static_cast<int>(prompt.size());
  const auto next_row = [&](const std::string& begin) {
    result.rows.push_back(begin);
    used = static_cast<int>(begin.size());
  };
  const auto mark_cursor = [&] {
    result.cursor_row = result.rows.size() - 1;
    result.cursor_cell = used;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text[at]);
    const bool has_cursor = at == buffer.cursor();
    if (text[at] == '\n') {
      if (used == width) next_row("");
      if (has_cursor) mark_cursor();
      next_row(indent);
    } else if (text[at] == '\t') {
      if (used == width) next_row("");
      if (has_cursor) mark_cursor();
      const int cells = std::min(tab_stop - used % tab_stop, width - used);
      result.rows.back().append(idx(cells), ' ');
      used += cells;
    } else {
      const int cells = cell_width(utf8_character(text, at));
      if (used + cells > width) next_row("");
      if (has_cursor) mark_cursor();
      result.rows.back().append(text, at, length);
      used += cells;
    }
    at += length;
  }
  if (buffer.cursor() == text.size()) {
    if (used == width) next_row("");
    mark_cursor();
  }
  return result;
}

}  // namespace specdec::cli
