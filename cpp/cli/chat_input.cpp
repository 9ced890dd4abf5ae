#include "cli/chat_input.h"

#include "base/error.h"
#include "base/utf8.h"
#include "cli/prompt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/screen.h"
#include "platform/console.h"
#include "platform/interrupt.h"

namespace specdec::cli {
namespace {

constexpr const char* input_mark = "> ";
constexpr const char* how_to_leave = "(/quit or Ctrl-D exits)\n";

}  // namespace

ChatInput::ChatInput(const std::string& history_file, bool by_line)
    : terminal_(input_is_terminal() && output_is_terminal()),
      by_line_(by_line || terminal_),
      history_(terminal_ && can_draw() ? history_file : "") {
  if (terminal_ && can_draw()) editor_.emplace(history_);
}

std::optional<std::string> ChatInput::next() {
  if (editor_) return next_edited();
  return by_line_ ? next_line() : rest();
}

std::optional<std::string> ChatInput::next_edited() {
  std::optional<std::string> text = editor_->read(input_mark, [] { write(how_to_leave); });
  if (!text) return std::nullopt;
  try {
    history_.add(*text);
  } catch (const Error& error) {
    note("note: " + std::string(error.what()) + "\n");
    history_.keep_in_memory();
  }
  return text;
}

// Returns false at the end of input.
bool ChatInput::read_more() {
  if (!wait_for_input()) {
    if (!terminal_) throw Cancelled("interrupted");
    clear_interrupt();
    write("\n" + std::string(how_to_leave) + input_mark);
    return true;
  }
  char chunk[4096];
  const std::optional<std::size_t> count = read_input(chunk, sizeof chunk);
  if (!count) return true;
  bytes_.append(chunk, *count);
  return *count > 0;
}

// The last line may lack a newline.
std::optional<std::string> ChatInput::next_line() {
  if (terminal_) write(input_mark);
  std::size_t end = bytes_.find('\n');
  while (end == std::string::npos && read_more()) end = bytes_.find('\n');
  if (end == std::string::npos && bytes_.empty()) return std::nullopt;
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, end == std::string::npos ? end : end + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  ++num_lines_;
  return terminal_ ? valid_utf8(line) : text_of(std::move(line), "standard input, line " + std::to_string(num_lines_));
}

std::optional<std::string> ChatInput::rest() {
  if (ended_) return std::nullopt;
  while (read_more()) {
  }
  ended_ = true;
  std::string text = text_of(std::move(bytes_), "standard input");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

}  // namespace specdec::cli
