// Full-screen output on a terminal.
#pragma once

#include <string>

namespace specdec::cli {

struct TerminalSize {
  int columns, rows;
};
// The current size of the terminal at standard output; 80 x 24 if unknown.
TerminalSize terminal_size();

// True on a terminal that can place its cursor.
bool can_draw();

// During its lifetime the terminal shows the alternate screen without a cursor. The destructor restores the main screen.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws lines separated by "\n", no wider than the terminal; lines below its end are left out.
  void draw(const std::string& lines);
};

}  // namespace specdec::cli
