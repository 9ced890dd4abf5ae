// The options of llama.cpp's programs that this program does not have: what to use instead.
#pragma once

#include <string>

namespace specdec::cli {

struct LlamaFlag {
  std::string
      instead;  // a phrase, such as "-t sets the threads of all passes"; "": llama.cpp does not have the name, either
  bool is_moot = false;  // the command does what it asks for anyway, or cannot do otherwise: a note is enough
  std::string same_as;   // the option with that meaning; empty: none
};

// command: such as "specdec chat".
LlamaFlag llama_flag(const std::string& name, const std::string& command);

}  // namespace specdec::cli
