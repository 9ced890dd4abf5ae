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

// The bytes of a file or of standard input ("-"), without a newline at the end. Throws Error.
std::string read_file(const std::string& path);

// Without -p and -f, reads standard input unless it is a terminal. Like llama.cpp, drops one newline at the end of a
// file or of standard input, because editors and `echo` add it. Throws UsageError, or Error for input that cannot be
// read or is not UTF-8.
std::string read_prompt(const PromptSource& source);

}  // namespace specdec::cli
