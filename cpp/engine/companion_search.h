// Looks for a drafting head or a draft model among the files of this machine.
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

// Of the files next to the target and in the hub's cache: a block drafter that was made for the target, or another
// head, or a model; of several the one from which most is to be gained (hub/companions.h). Files that cannot be read
// are passed over. Throws nothing but bad_alloc.
std::optional<FoundCompanion> find_companion(const std::vector<GgufFile>& target, bool can_be_head);

// Why the file cannot draft for the target, or would not be worth it; empty: it can.
std::string objection_to(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target, bool can_be_head);

}  // namespace specdec
