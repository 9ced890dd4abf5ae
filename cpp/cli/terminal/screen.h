// Full-screen output on a terminal.
#pragma once

#include <string>

#include "platform/console.h"

namespace specdec::cli {

// True on a terminal that can place its cursor.
bool can_draw();

// During its lifetime the terminal shows the alternate screen without a cursor. The destructor restores the main
// screen.
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
