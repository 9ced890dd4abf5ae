// Which projector a target's pictures are read with, from the option and from the files beside the target.
#pragma once

#include <cstdint>
#include <string>

#include "gguf/gguf_file.h"

namespace specdec {

struct FoundProjector {
  std::string path;         // empty: none
  std::string why_not;      // then: a sentence with the remedy
  std::uint64_t bytes = 0;  // of memory, once it is loaded: about the size of its file
};

// option: a file, "auto" (one with "mmproj" in its name beside the target) or "none". Of several that is taken whose
// rows are as wide as the target's, whose name has most in common with the target's, or else the first. Reads headers
// only. Throws Error for a file that is asked for and cannot be read.
FoundProjector find_projector(const std::string& option, const GgufFile& target);

}  // namespace specdec
