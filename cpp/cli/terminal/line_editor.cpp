#include "cli/terminal/line_editor.h"

#include <algorithm>
#include <utility>

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

std::string up(std::size_t rows) { return rows == 0 ? "" : "\x1b[" + std::to_string(rows) + "A"; }

// While text is edited: keys arrive one by one and pastes are marked.
class RawTerminal {
 public:
  RawTerminal() { write("\x1b[?2004h"); }
  ~RawTerminal() { (void)write_to(StandardStream::output, "\x1b[?2004l"); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  RawInput input_;
};

}  // namespace

std::optional<std::string> LineEditor::read(const std::string& prompt, const std::function<void()>& interrupted) {
  buffer_.set("");
  place_ = history_.entries().size();
  std::optional<RawTerminal> raw(std::in_place);
  rows_above_ = rows_below_ = 0;
  while (true) {
    Outcome outcome = Outcome::goes_on;
    const std::optional<KeyPress> key = decoder_.next();
    if (key) {
      outcome = press(*key);
    } else {
      draw(prompt);
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
    buffer_.set(buffer_.text());  // the cursor goes to the end
    draw(prompt);
    leave_drawing();
    if (outcome == Outcome::done) break;
    raw.reset();
    if (outcome == Outcome::ended) return std::nullopt;
    if (outcome == Outcome::interrupted) {
      clear_interrupt();
      buffer_.set("");
      interrupted();
    } else {
      suspend();
    }
    raw.emplace();
  }
  const std::string text = buffer_.text();
  return is_fenced(text) && is_closed(text) ? without_fences(text) : text;
}

LineEditor::Outcome LineEditor::press(const KeyPress& key) {
  switch (key.key) {
    case Key::text:
      buffer_.insert(key.text);
      return Outcome::goes_on;
    case Key::enter:
      return enter();
    case Key::new_line:
      buffer_.insert("\n");
      return Outcome::goes_on;
    case Key::backspace:
      buffer_.backspace();
      return Outcome::goes_on;
    case Key::erase:
      buffer_.erase();
      return Outcome::goes_on;
    case Key::left:
      buffer_.left();
      return Outcome::goes_on;
    case Key::right:
      buffer_.right();
      return Outcome::goes_on;
    case Key::up:
      if (!buffer_.up() && place_ > 0) recall(place_ - 1);
      return Outcome::goes_on;
    case Key::down:
      if (!buffer_.down() && place_ < history_.entries().size()) recall(place_ + 1);
      return Outcome::goes_on;
    case Key::home:
      buffer_.home();
      return Outcome::goes_on;
    case Key::end:
      buffer_.end();
      return Outcome::goes_on;
    case Key::word_left:
      buffer_.word_left();
      return Outcome::goes_on;
    case Key::word_right:
      buffer_.word_right();
      return Outcome::goes_on;
    case Key::erase_word:
      buffer_.erase_word();
      return Outcome::goes_on;
    case Key::erase_to_start:
      buffer_.erase_to_start();
      return Outcome::goes_on;
    case Key::erase_to_end:
      buffer_.erase_to_end();
      return Outcome::goes_on;
    case Key::clear_screen:
      write("\x1b[H\x1b[2J");
      rows_above_ = rows_below_ = 0;
      return Outcome::goes_on;
    case Key::interrupt:
      return Outcome::interrupted;
    case Key::end_of_input:
      if (buffer_.text().empty()) return Outcome::ended;
      buffer_.erase();
      return Outcome::goes_on;
    case Key::suspend:
      return Outcome::suspended;
  }
  return Outcome::goes_on;
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
  if (place_ == history_.entries().size()) unfinished_ = buffer_.text();
  place_ = place;
  buffer_.set(place == history_.entries().size() ? unfinished_ : history_.entries()[place]);
}

// Draws the text in place of what was drawn before. Of text with more rows than the terminal: those around the cursor.
void LineEditor::draw(const std::string& prompt) {
  const TerminalSize size = terminal_size();
  const EditLayout all = layout(buffer_, prompt, std::max(size.columns, static_cast<int>(prompt.size()) + 2));
  const std::size_t shown = std::min(all.rows.size(), static_cast<std::size_t>(std::max(1, size.rows - 1)));
  const std::size_t first = std::min(all.cursor_row - std::min(all.cursor_row, shown / 2), all.rows.size() - shown);
  std::string text = up(rows_above_) + "\r\x1b[J";
  for (std::size_t row = first; row < first + shown; ++row) text += (row == first ? "" : "\r\n") + all.rows[row];
  rows_above_ = all.cursor_row - first;
  rows_below_ = shown - 1 - rows_above_;
  if (buffer_.cursor() < buffer_.text().size()) {  // else the cursor is there already
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
