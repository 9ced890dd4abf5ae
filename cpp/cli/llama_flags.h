// What to use instead of the options of llama.cpp's programs that this program lacks.
#pragma once

#include <string>

namespace specdec::cli {

struct LlamaFlag {
  std::string instead;   // a phrase such as "-t sets the threads of all passes"; "": llama.cpp lacks the name, too
  bool is_moot = false;  // a note is enough, because the command does this anyway or cannot do otherwise
  std::string same_as;   // the option with the same meaning; empty: none
};

// command: for example "specdec chat".
LlamaFlag llama_flag(const std::string& name, const std::string& command);

}  // namespace specdec::cli
