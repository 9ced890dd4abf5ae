// Looks for a draft model among the files of this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

struct FoundCompanion {
  std::string path;
  std::vector<GgufFile> parts;  // headers
  std::string reason;           // where it was found, and what it would give
};

// Of the models next to the target and in the hub's cache: the one from which most is to be gained (hub/companions.h).
// Files that cannot be read are passed over. Throws nothing but bad_alloc.
std::optional<FoundCompanion> find_companion(const std::vector<GgufFile>& target);

}  // namespace specdec
