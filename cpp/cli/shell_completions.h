// Generates shell completions of the command line from the options' tables.
#pragma once

#include <string>

namespace specdec::cli {

std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

}  // namespace specdec::cli
