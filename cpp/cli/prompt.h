// Reads a prompt from an argument, a file or standard input, and checks that it is UTF-8.
#pragma once

#include <optional>
#include <string>

namespace specdec::cli {

struct PromptSource {
  std::optional<std::string> text;  // -p
  std::optional<std::string> file;  // -f; "-" is standard input
  bool escapes = false;             // interpret \n, \t, \" ... (-p only)
};

// The text in the bytes of a file: without a byte order mark at the start. Throws Error, with the name, for UTF-16, NUL
// bytes and all else that is not UTF-8.
std::string text_of(std::string bytes, const std::string& name);

// The text of a file or of standard input ("-"), without a line break at the end (LF or CRLF). Throws Error.
std::string read_file(const std::string& path);

// Without -p and -f, reads standard input unless it is a terminal. Like llama.cpp, drops one line break at the end
// of a file or of standard input, because editors and `echo` add it. Throws UsageError, or Error for input that cannot
// be read or is not UTF-8.
std::string read_prompt(const PromptSource& source);

}  // namespace specdec::cli
