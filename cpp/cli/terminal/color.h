// Colours of a terminal.
#pragma once

#include <string>

namespace specdec::cli {

enum class Style { plain, green, cyan, red, faint, bold };

// mode: "on", "off", or "auto": colour on terminals other than TERM=dumb, unless NO_COLOR is set (no-color.org).
bool use_color(const std::string& mode);

// The codes that begin a style and that return to plain text, which has none.
const char* style_code(Style style);
constexpr const char* plain_code = "\x1b[0m";

std::string styled(const std::string& text, Style style, bool color);

}  // namespace specdec::cli
