// Folders of the user's own files (XDG Base Directory Specification 0.8).
#pragma once

#include <string>

namespace specdec {

// Where files of specdec belong that can be made again: $XDG_CACHE_HOME/specdec, else ~/.cache/specdec. "": neither
// is known. Relative variables are ignored, as the specification has it. No folder is made.
std::string user_cache_folder();

// The same for what should outlive the program: below $XDG_STATE_HOME, else ~/.local/state.
std::string user_state_folder();

}  // namespace specdec
