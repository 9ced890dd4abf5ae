// How models of an architecture roll back rejected drafts (recurrent_state.h).
#pragma once

#include <string>

namespace specdec {

enum class Rollback {
  cells,        // attention only: the latest cells of the KV cache are dropped
  snapshots,    // recurrent layers whose latest states llama.cpp keeps
  checkpoints,  // other recurrent layers: their state is copied before drafts
  unknown       // not an architecture of llama.cpp
};

Rollback rollback_of(const std::string& architecture);
const char* name(Rollback rollback);
bool is_recurrent_only(const std::string& architecture);  // no layer attends to earlier tokens

// Whether logits have the same bits however tokens are cut into passes (docs/losslessness.md). Among architectures with
// recurrent layers, only the tested ones count. Weights, caches and devices are the caller's concern.
bool has_same_bits(const std::string& architecture);

}  // namespace specdec
