// Companions: for families of target models, the drafting heads and small models of the hub that can draft for them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hub/model_name.h"

namespace specdec {

class GgufFile;

// The companions for the model name in the target's file (companions.txt), best first; none if the family is unknown,
// or if the target is itself the family's small model. Throws ModelError for an unreadable file.
std::vector<HubName> companions_of(const std::vector<GgufFile>& target);  // all parts
std::vector<HubName> companions_of(const std::string& target_path);

// Whether a draft model or drafting head fits a target, and what it would gain (hub/draft_gain.h).
struct CompanionFit {
  std::string vocabulary_problem;                // where they differ; empty if the common tokens are the same
  double draft_bytes = 0.0, target_bytes = 0.0;  // read by a pass
  double cost() const { return draft_bytes / target_bytes; }
  double gain(double acceptance) const;
  // Why the file cannot draft for the target or is not worth using: another vocabulary, or passes too expensive to gain
  // anything. Empty if it is.
  std::string objection() const;
  // "a pass of it takes about 0.23 of the target's, which would give 1.85 times plain decoding"
  std::string prediction() const;
};
CompanionFit companion_fit(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target);

// Parses short names of models in companions.txt: "qwen3-8b", optionally with ":QUANT".
std::optional<HubName> short_name(const std::string& text);
std::vector<std::pair<std::string, HubName>> short_names();

}  // namespace specdec
