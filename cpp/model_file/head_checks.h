// Shared by the checks of all kinds of drafting heads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

std::string architecture_of(const std::vector<GgufFile>& parts);
// The value of "<architecture>.<name>"; 0 if it is missing.
std::uint64_t hyperparameter(const std::vector<GgufFile>& parts, const std::string& name);
std::uint64_t vocabulary_size(const std::vector<GgufFile>& parts);

// Throw ModelError.
[[noreturn]] void reject_head(const std::vector<GgufFile>& head, const std::string& problem);
[[noreturn]] void reject_damaged_head(const std::vector<GgufFile>& head, const std::string& problem);

// ARCHITECTURE.target_layers: the layers whose inputs the head reads. Empty if the list is damaged.
std::vector<int> target_layers(const std::vector<GgufFile>& head);
// Throws if the target lacks one of these layers.
void check_target_layers(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target);
// Throws if the head lacks the target's parts or was made for a target of another width.
void check_width(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target, std::uint64_t expected);
// Throws if ids in the head's own vocabulary ("d2t") are not in the target's vocabulary.
void check_own_vocabulary(const std::vector<GgufFile>& head);

}  // namespace specdec
