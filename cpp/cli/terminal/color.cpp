#include "cli/terminal/color.h"

#include <cstdlib>
#include <cstring>

#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool use_color(const std::string& mode) {
  if (mode != "auto") return mode == "on";
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
  return output_is_terminal() && !dumb && !is_set("NO_COLOR");
}

const char* style_code(Style style) {
  switch (style) {
    case Style::green:
      return "\x1b[32m";
    case Style::cyan:
      return "\x1b[36m";
    case Style::red:
      return "\x1b[31m";
    case Style::faint:
      return "\x1b[2m";
    case Style::bold:
      return "\x1b[1m";
    default:
      return "";
  }
}

std::string styled(const std::string& text, Style style, bool color) {
  return color && style != Style::plain ? style_code(style) + text + plain_code : text;
}

}  // namespace specdec::cli
