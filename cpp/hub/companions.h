// Companions: for families of target models, small models of the hub that can draft for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hub/model_name.h"

namespace specdec {

class GgufFile;

// By the name in the target's file (companions.txt). None: the family is not known. Throws ModelError for an unreadable
// file.
std::optional<HubName> companion_of(const GgufFile& target);
std::optional<HubName> companion_of(const std::string& target_path);

// Why a file cannot draft for the target, or would not be worth it: another vocabulary, or passes too expensive to gain
// anything (hub/draft_gain.h). Empty: it can.
std::string objection_to_companion(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target);

}  // namespace specdec
