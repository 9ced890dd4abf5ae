// What to use instead of the options of llama.cpp's programs that this program does not have.
#pragma once

#include <string>

namespace specdec::cli {

// A phrase for an error, such as "-t sets the threads of all passes"; "" for names that llama.cpp does not have, either.
std::string instead_of_llama_flag(const std::string& name);

}  // namespace specdec::cli
