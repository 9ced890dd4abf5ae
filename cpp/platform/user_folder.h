// Folders of the user's own files (XDG Base Directory Specification 0.8).
#pragma once

#include <string>

namespace specdec {

// The folder for files of specdec that can be made again: $XDG_CACHE_HOME/specdec, or else ~/.cache/specdec; "" if
// neither is known. Relative variables are ignored, as the specification requires. Creates no folder.
std::string user_cache_folder();

// The same for files that should outlive the program: below $XDG_STATE_HOME, or else ~/.local/state.
std::string user_state_folder();

}  // namespace specdec
