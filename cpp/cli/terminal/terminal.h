// A terminal as a canvas.
#pragma once

#include <string>

namespace specdec::cli {

struct TerminalSize {
  int columns, rows;
};
// Of standard output, as it is now; 80 x 24 where it does not tell.
TerminalSize terminal_size();

// True on a terminal that can place its cursor.
bool can_draw();

// While one lives, the terminal shows a second screen without a cursor; then all is as before, whatever ends it.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines separated by "\n", no wider than the terminal; those below its end are left out.
  void draw(const std::string& lines);
};

}  // namespace specdec::cli
