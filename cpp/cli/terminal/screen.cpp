#include "cli/terminal/screen.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/terminal/output.h"

namespace specdec::cli {

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  return output_is_terminal() && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
}

Screen::Screen() { write("\x1b[?1049h\x1b[?25l"); }

// Ignores errors, unlike write(): the terminal may be gone.
Screen::~Screen() {
  std::fputs("\x1b[?25h\x1b[?1049l", stdout);
  std::fflush(stdout);
}

void Screen::draw(const std::string& lines) {
  std::string text = "\x1b[H";
  int left = terminal_size().rows;
  for (const char byte : lines) {
    if (byte == '\n' && --left == 0) break;
    text += byte == '\n' ? "\x1b[K\r\n" : std::string(1, byte);
  }
  write(text + "\x1b[K\x1b[J");
}

}  // namespace specdec::cli
