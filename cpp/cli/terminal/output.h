// Standard output and what the terminal can show. Everything that is not the answer goes to standard error instead.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace specdec::cli {

// The reader of our output is gone (`specdec ... | head`): not an error, but nothing is left to do.
class OutputClosed : public std::runtime_error {
 public:
  OutputClosed() : std::runtime_error("standard output is closed") {}
};

// Writes at once. Throws OutputClosed, or specdec::Error when writing fails (a full disk).
void write(std::string_view text);

// For notes and warnings; never throws.
void note(std::string_view text);

bool output_is_terminal();
bool input_is_terminal();

// mode: "always", "never" or "auto": a terminal that is not dumb, unless NO_COLOR is set (no-color.org).
bool use_color(const std::string& mode);

// Bytes that are not UTF-8 replaced by U+FFFD.
std::string valid_utf8(const std::string& text);

// Text of unknown origin made safe to show on one line: control characters escaped, bytes that are not UTF-8 replaced.
std::string printable(const std::string& text);

// At most `columns` characters, the last one an ellipsis where something was cut.
std::string shorten(const std::string& text, std::size_t columns);

}  // namespace specdec::cli
