// Where a prompt comes from, and that it is text.
#pragma once

#include <optional>
#include <string>

namespace specdec::cli {

struct PromptSource {
  std::optional<std::string> text;  // -p
  std::optional<std::string> file;  // -f; "-" is standard input
  bool escapes = false;             // turn \n, \t, \" ... into what they stand for (-p only)
};

// Standard input when nothing is named and it is not a terminal. One newline at the end of a file or of standard input is
// dropped, as llama.cpp does: editors and `echo` put it there. Throws UsageError, or Error for what cannot be read or is not
// UTF-8.
std::string read_prompt(const PromptSource& source);

}  // namespace specdec::cli
