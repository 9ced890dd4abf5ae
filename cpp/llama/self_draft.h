// The target as its own draft: passes of its context with rounded weights (llama/rounded_weights.h). They read the keys
// and values that the target's own passes have left, so this draft has no cache of its own and reads no prompt.
//
// Drafts are nodes of a tree behind the text, the last token its root, until the target's next pass drops them. A chain
// is a tree without branches.
#pragma once

#include <vector>

#include "base/index.h"
#include "llama/context.h"
#include "speculative/language_model.h"

namespace specdec {

class SelfDraft final : public LanguageModel {
 public:
  // The target must read trees.
  SelfDraft(Context& target, int num_slots) : target_(target), slots_(idx(num_slots)) {}

  int vocabulary_size() const override { return target_.vocabulary_size(); }
  int context_length() const override { return target_.context_length(); }
  int end(int slot) const override;
  int batch_size() const override { return target_.batch_size(); }
  int row_capacity() const override { return target_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return target_.is_end_of_generation(token); }
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return target_.logits(row); }
  int pass_size() const override { return target_.pass_size(); }
  // With the chain.
  int length(int slot) const override;
  // Drops what was read here only: the text is the target's.
  void truncate(int slot, int length) override;
  bool reads_trees() const override { return true; }
  void copy(int /*from*/, int /*to*/) override {}  // the target's is enough

 private:
  struct Slot {
    int chain = 0;             // nodes before those of a tree
    std::vector<int> parents;  // of all nodes in the target's context
    void clear() {
      chain = 0;
      parents.clear();
    }
  };
  Slot& current(int slot);

  Context& target_;
  std::vector<Slot> slots_;
  std::vector<PassInput> inputs_;
};

}  // namespace specdec
