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
  std::string reason;           // where it was found, and the gain to expect
};

// Looks next to the target and in the hub's cache for a block drafter made for the target, another head, or a model,
// and takes the one with the largest expected gain (hub/companions.h). Skips files that cannot be read. Throws nothing
// but bad_alloc.
std::optional<FoundCompanion> find_companion(const std::vector<GgufFile>& target, bool can_be_head);

// Why the file cannot draft for the target or is not worth using; empty if it is.
std::string objection_to(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target, bool can_be_head);

}  // namespace specdec
