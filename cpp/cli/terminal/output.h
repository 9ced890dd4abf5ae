// Standard output and error, and text made safe for a terminal. Results go to standard output, everything else to
// standard error.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace specdec::cli {

// The reader of our output has closed it (`specdec ... | head`). Not an error, but the command ends.
class OutputClosed : public std::runtime_error {
 public:
  OutputClosed() : std::runtime_error("standard output is closed") {}
};

// Writes without buffering. Throws OutputClosed, or specdec::Error if writing fails (a full disk).
void write(std::string_view text);

// For notes and warnings; never throws.
void note(std::string_view text);

// A sentence for standard error; on a terminal it is broken between words. tell() writes it and a newline.
std::string told(const std::string& sentence);
void tell(const std::string& sentence);

// A row of a report on standard error: the label, and a text broken between words at 80 columns or at the terminal's
// width.
std::string labelled(const std::string& label, const std::string& text);

bool output_is_terminal();
bool input_is_terminal();

// Breaks text between words into lines of at most `columns`, each after the first indented.
std::string wrap(const std::string& text, std::size_t columns, std::size_t indent);

// Cuts to at most `columns` characters, the last one an ellipsis.
std::string shorten(const std::string& text, std::size_t columns);

}  // namespace specdec::cli
