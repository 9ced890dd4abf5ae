#include "llama/self_draft.h"

#include <algorithm>

namespace specdec {

// What the slot holds of the text that the target has now.
SelfDraft::Slot& SelfDraft::current(int slot) {
  Slot& s = slots_[idx(slot)];
  if (target_.num_rounded_nodes(slot) == 0) s.clear();
  return s;
}

int SelfDraft::length(int slot) const {
  return target_.length(slot) + (target_.num_rounded_nodes(slot) == 0 ? 0 : slots_[idx(slot)].chain);
}

int SelfDraft::end(int slot) const { return std::min(target_.end(slot), target_.length(slot) + max_tree_nodes); }

void SelfDraft::decode(const std::vector<PassInput>& inputs) {
  inputs_ = inputs;
  for (PassInput& input : inputs_) {
    Slot& s = current(input.slot);
    const int num_nodes = static_cast<int>(s.parents.size());
    if (input.parents == nullptr) {
      for (int i = 0; i < input.num_tokens; ++i) s.parents.push_back(num_nodes + i - 1);
      s.chain += input.num_tokens;
    } else {
      for (std::size_t node = idx(num_nodes - s.chain); node < input.parents->size(); ++node)
        s.parents.push_back(s.chain + (*input.parents)[node]);  // -1: the last of the chain
    }
    input.parents = &s.parents;
  }
  try {
    target_.decode_rounded(inputs_);
  } catch (...) {
    for (const PassInput& input : inputs) truncate(input.slot, 0);
    throw;
  }
}

void SelfDraft::truncate(int slot, int /*length*/) {
  if (target_.num_rounded_nodes(slot) > 0) target_.truncate(slot, target_.length(slot));
  slots_[idx(slot)].clear();
}

}  // namespace specdec
