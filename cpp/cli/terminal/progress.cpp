#include "cli/terminal/progress.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/index.h"
#include "cli/terminal/output.h"
#include "platform/console.h"

namespace specdec::cli {
namespace {

// A dumb terminal cannot erase a line.
bool is_dumb() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
}

}  // namespace

ProgressLine::ProgressLine()
    : terminal_(is_terminal(StandardStream::error) && !is_dumb()),
      interval_(terminal_ ? Clock::duration(std::chrono::milliseconds(100)) : std::chrono::seconds(5)) {}

void ProgressLine::begin(const std::string& text) {
  if (terminal_ || due()) put(text);
}

void ProgressLine::clear() {
  if (terminal_ && shown_) note("\r\x1b[K");
  shown_ = false;
}

void ProgressLine::put(const std::string& text) {
  last_ = Clock::now();
  const std::size_t width = terminal_ ? idx(std::max(2, terminal_size().columns)) - 1 : 80;
  note(terminal_ ? "\r" + shorten(text, width) + "\x1b[K" : shorten(text, width) + "\n");
  shown_ = true;
}

}  // namespace specdec::cli
