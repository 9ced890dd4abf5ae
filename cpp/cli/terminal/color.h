// Colours of a terminal.
#pragma once

#include <string>

namespace specdec::cli {

enum class Style { plain, green, faint, bold };

// mode: "always", "never", or "auto": colour on terminals other than TERM=dumb, unless NO_COLOR is set (no-color.org).
bool use_color(const std::string& mode);

// The codes that begin a style and return to plain; plain text has none.
const char* style_code(Style style);
constexpr const char* plain_code = "\x1b[0m";

std::string styled(const std::string& text, Style style, bool color);

// Of a token of the output: accepted drafts are green.
constexpr Style draft_style(bool from_draft) { return from_draft ? Style::green : Style::plain; }

}  // namespace specdec::cli
