// What to use instead of the options of llama.cpp's programs that this program does not have.
#pragma once

#include <string>

namespace specdec::cli {

struct LlamaFlag {
  std::string instead;   // a phrase, such as "-t sets the threads of all passes"; "": llama.cpp does not have the name, either
  bool is_moot = false;  // it asks for what the command does anyway
};

// command: such as "specdec chat".
LlamaFlag llama_flag(const std::string& name, const std::string& command);

}  // namespace specdec::cli
