// What Tab completes in a chat: commands, names and values of options, files.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/completion.h"

namespace specdec::cli {

struct ChatWord {
  std::string name;      // "/save"
  std::string argument;  // "FILE" is one, "NAME VALUE" an option
};

// text: what stands before the cursor.
Completion complete_chat(const std::string& text, const std::vector<ChatWord>& commands);

}  // namespace specdec::cli
