#include "cli/terminal/line_editor.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"
#include "cli/terminal/output.h"
#include "platform/console.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

constexpr const char* fence = "\"\"\"";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Whether the text began with a line of """ and has no second fence at its end yet.
bool is_fenced(const std::string& text) { return text.rfind(fence, 0) == 0; }
bool is_closed(const std::string& text) { return text.size() >= 6 && ends_with(text, fence); }

std::string without_fences(const std::string& text) {
  std::string inner = text.substr(3, text.size() - 6);
  if (!inner.empty() && inner.front() == '\n') inner.erase(0, 1);
  if (!inner.empty() && inner.back() == '\n') inner.pop_back();
  return inner;
}

std::size_t last_character(const std::string& text) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) last = at;
  return last;
}

std::string up(std::size_t rows) { return rows == 0 ? "" : "\x1b[" + std::to_string(rows) + "A"; }

}  // namespace

std::optional<std::string> LineEditor::read(const std::string& prompt, const std::function<void()>& interrupted) {
  prompt_ = prompt;
  raw_.set_interrupt_key(true);
  keep_typed();
  const std::size_t kept = buffer_.text().find_last_not_of('\n') + 1;  // npos + 1 == 0
  if (kept < buffer_.text().size()) buffer_.set(buffer_.text().substr(0, kept));
  place_ = history_.entries().size();
  rows_above_ = rows_below_ = 0;
  if (has_ended_ && buffer_.text().empty()) return std::nullopt;
  has_ended_ = false;
  while (true) {
    Outcome outcome = Outcome::goes_on;
    const std::optional<KeyPress> key = decoder_.next();
    if (key) {
      outcome = query_ && press_in_search(*key) ? Outcome::goes_on : press(*key);
    } else {
      draw();
      if (!wait_for_input()) {
        outcome = Outcome::interrupted;
      } else {
        char chunk[4096];
        const std::optional<std::size_t> count = read_input(chunk, sizeof chunk);
        if (count && *count == 0) outcome = Outcome::ended;
        else if (count) decoder_.add({chunk, *count});
      }
    }
    if (outcome == Outcome::goes_on) continue;
    query_.reset();
    buffer_.set(buffer_.text());  // the cursor goes to the end
    draw();
    leave_drawing();
    if (outcome == Outcome::done) break;
    if (outcome == Outcome::ended) return std::nullopt;
    if (outcome == Outcome::interrupted) {
      clear_interrupt();
      buffer_.set("");
      interrupted();
    } else {
      raw_.suspend();
    }
  }
  raw_.set_interrupt_key(false);
  const std::string text = buffer_.text();
  buffer_.set("");
  return is_fenced(text) && is_closed(text) ? without_fences(text) : text;
}

void LineEditor::keep_typed() {
  while (true) {
    while (const std::optional<KeyPress> key = decoder_.next()) {
      if (key->key == Key::enter) buffer_.insert("\n");
      else if (key->key == Key::complete) buffer_.insert("\t");
      else if (key->key == Key::interrupt) interrupt();
      else if (key->key == Key::suspend) raw_.suspend();
      else if (key->key == Key::end_of_input) has_ended_ = true;
      else if (key->key != Key::clear_screen) edit(*key);
    }
    if (!has_input()) return;
    char chunk[4096];
    const std::optional<std::size_t> count = read_input(chunk, sizeof chunk);
    if (!count) return;
    if (*count == 0) {
      has_ended_ = true;
      return;
    }
    decoder_.add({chunk, *count});
  }
}

LineEditor::Outcome LineEditor::press(const KeyPress& key) {
  switch (key.key) {
    case Key::enter:
      return enter();
    case Key::up:
      if (!buffer_.up() && place_ > 0) recall(place_ - 1);
      return Outcome::goes_on;
    case Key::down:
      if (!buffer_.down() && place_ < history_.entries().size()) recall(place_ + 1);
      return Outcome::goes_on;
    case Key::clear_screen:
      write("\x1b[H\x1b[2J");
      rows_above_ = rows_below_ = 0;
      return Outcome::goes_on;
    case Key::complete:
      complete();
      return Outcome::goes_on;
    case Key::search:
      begin_search();
      return Outcome::goes_on;
    case Key::interrupt:
      return Outcome::interrupted;
    case Key::end_of_input:
      if (buffer_.text().empty()) return Outcome::ended;
      buffer_.erase();
      return Outcome::goes_on;
    case Key::suspend:
      return Outcome::suspended;
    default:
      edit(key);
      return Outcome::goes_on;
  }
}

// Keys that change the text or move the cursor in it.
void LineEditor::edit(const KeyPress& key) {
  switch (key.key) {
    case Key::text:
      return buffer_.insert(key.text);
    case Key::new_line:
      return buffer_.insert("\n");
    case Key::backspace:
      return buffer_.backspace();
    case Key::erase:
      return buffer_.erase();
    case Key::left:
      return buffer_.left();
    case Key::right:
      return buffer_.right();
    case Key::home:
      return buffer_.home();
    case Key::end:
      return buffer_.end();
    case Key::word_left:
      return buffer_.word_left();
    case Key::word_right:
      return buffer_.word_right();
    case Key::erase_word:
      return buffer_.erase_word();
    case Key::erase_to_start:
      return buffer_.erase_to_start();
    case Key::erase_to_end:
      return buffer_.erase_to_end();
    default:
      return;
  }
}

LineEditor::Outcome LineEditor::enter() {
  const std::string& text = buffer_.text();
  const bool at_end = buffer_.cursor() == text.size();
  if (is_fenced(text) && !is_closed(text)) {
    buffer_.insert("\n");
    return Outcome::goes_on;
  }
  if (at_end && ends_with(text, "\\") && !is_fenced(text)) {
    buffer_.backspace();
    buffer_.insert("\n");
    return Outcome::goes_on;
  }
  return Outcome::done;
}

void LineEditor::recall(std::size_t place) {
  if (place_ == history_.entries().size() && !query_) unfinished_ = buffer_.text();
  place_ = place;
  buffer_.set(place == history_.entries().size() ? unfinished_ : history_.entries()[place]);
}

// Adds the common beginning of all candidates; if it adds nothing, lists them.
void LineEditor::complete() {
  const std::string typed = buffer_.text().substr(0, buffer_.cursor());
  const Completion completion = completer_ ? completer_(typed) : Completion();
  if (completion.candidates.empty()) {
    if (typed.empty() || typed.front() != '/') buffer_.insert("\t");
    return;
  }
  const std::string more = common_start(completion.candidates).substr(typed.size() - completion.start);
  if (!more.empty()) return buffer_.insert(more);
  if (completion.candidates.size() == 1) return;
  draw();
  leave_drawing();
  write(listing(completion.candidates, terminal_size().columns));
}

void LineEditor::begin_search() {
  if (place_ == history_.entries().size()) unfinished_ = buffer_.text();
  place_ = history_.entries().size();
  query_ = "";
  has_found_ = true;
}

// Returns false if the key ends the search and has its usual meaning.
bool LineEditor::press_in_search(const KeyPress& key) {
  switch (key.key) {
    case Key::text:
      *query_ += key.text;
      find(place_ + 1);
      return true;
    case Key::backspace:
      query_->erase(last_character(*query_));
      find(history_.entries().size());
      return true;
    case Key::search:
      find(place_);
      return true;
    case Key::cancel:
    case Key::interrupt:
      query_.reset();
      recall(history_.entries().size());
      return true;
    default:
      query_.reset();
      return false;
  }
}

// Finds the latest entry before this place that contains the query; if there is none, the last result stays.
void LineEditor::find(std::size_t before) {
  const std::vector<std::string>& entries = history_.entries();
  for (std::size_t place = std::min(before, entries.size()); place-- > 0;) {
    if (entries[place].find(*query_) == std::string::npos) continue;
    has_found_ = true;
    return recall(place);
  }
  has_found_ = false;
}

std::string LineEditor::search_status(std::size_t width) const {
  return shorten((has_found_ ? "(search: " : "(not found: ") + *query_ + ")", width);
}

// Draws the text over the previous drawing. If the text is taller than the terminal, the part around the cursor is
// shown.
void LineEditor::draw() {
  const TerminalSize size = terminal_size();
  const EditLayout all = layout(buffer_, prompt_, std::max(size.columns, static_cast<int>(prompt_.size()) + 2));
  const std::string status = query_ ? search_status(idx(std::max(2, size.columns)) - 1) : "";
  const int free_rows = size.rows - (status.empty() ? 1 : 2);
  const std::size_t shown = std::min(all.rows.size(), idx(std::max(1, free_rows)));
  const std::size_t first = std::min(all.cursor_row - std::min(all.cursor_row, shown / 2), all.rows.size() - shown);
  std::string text = up(rows_above_) + "\r\x1b[J";
  for (std::size_t row = first; row < first + shown; ++row) text += (row == first ? "" : "\r\n") + all.rows[row];
  rows_above_ = all.cursor_row - first;
  rows_below_ = shown - 1 - rows_above_;
  if (!status.empty()) {
    text += "\r\n" + status;
    ++rows_below_;
  }
  if (!status.empty() || buffer_.cursor() < buffer_.text().size()) {  // otherwise the cursor is there already
    text += up(rows_below_) + "\r";
    if (all.cursor_cell > 0) text += "\x1b[" + std::to_string(all.cursor_cell) + "C";
  }
  write(text);
}

void LineEditor::leave_drawing() {
  write((rows_below_ == 0 ? "" : "\x1b[" + std::to_string(rows_below_) + "B") + "\r\n");
  rows_above_ = rows_below_ = 0;
}

}  // namespace specdec::cli
