// Completes commands, names and values of options, and files in a chat (Tab).
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/completion.h"

namespace specdec::cli {

struct ChatWord {
  std::string name;      // "/save"
  std::string argument;  // "FILE": a file; "NAME VALUE": an option
};

// text: the text before the cursor.
Completion complete_chat(const std::string& text, const std::vector<ChatWord>& commands);

}  // namespace specdec::cli
