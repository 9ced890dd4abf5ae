// What the checks of all kinds of drafting heads use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

std::string architecture_of(const std::vector<GgufFile>& parts);
// The value of "<architecture>.<name>"; 0: it is missing.
std::uint64_t hyperparameter(const std::vector<GgufFile>& parts, const std::string& name);
std::uint64_t vocabulary_size(const std::vector<GgufFile>& parts);

// Throw ModelError.
[[noreturn]] void reject_head(const std::vector<GgufFile>& head, const std::string& problem);
[[noreturn]] void reject_damaged_head(const std::vector<GgufFile>& head, const std::string& problem);

// ARCHITECTURE.target_layers: whose inputs the head reads. Empty if they are damaged.
std::vector<int> target_layers(const std::vector<GgufFile>& head);
// Throws if one of them does not exist.
void check_target_layers(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target);
// Throws if the head lacks parts of the target, or was made for one of another width.
void check_width(const std::vector<GgufFile>& head, const std::vector<GgufFile>& target, std::uint64_t expected);
// Throws if the ids of a vocabulary of its own ("d2t") are none of the target's.
void check_own_vocabulary(const std::vector<GgufFile>& head);

}  // namespace specdec
