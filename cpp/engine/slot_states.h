// Saves the caches of one slot (target and draft) as bytes and restores them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/index.h"
#include "engine/prefix_file.h"
#include "llama/context.h"
#include "speculative/decoder.h"
#include "speculative/target_of_head.h"

namespace specdec {

// An interface, so that prefixes are tested without models.
class SlotStates {
 public:
  virtual ~SlotStates() = default;

  // What the slot caches of the first `length` places of this text. The keys are empty; num_draft_tokens is 0 without a
  // usable draft state.
  virtual PrefixFile save(int slot, const Text& text, int length) = 0;
  // Returns false and leaves the slot empty if the target's state does not fit this context.
  virtual bool restore(int slot, const PrefixFile& prefix) = 0;
};

class ModelStates final : public SlotStates {
 public:
  // drafts: the context of a draft model, or those of a head's layers. head: null if there is none. All must outlive
  // this.
  ModelStates(Decoder& decoder, Context& target, const std::vector<std::unique_ptr<Context>>& drafts, HeadModel* head)
      : decoder_(decoder), target_(target), drafts_(drafts), head_(head) {}

  PrefixFile save(int slot, const Text& text, int length) override;
  bool restore(int slot, const PrefixFile& prefix) override;

 private:
  std::size_t row_bytes() const { return head_ == nullptr ? 0 : idx(head_->next_row_size()) * sizeof(float); }
  std::string draft_states(int slot) const;
  bool restore_drafts(int slot, const std::string& states, int length);
  void restore_draft(int slot, const PrefixFile& prefix);

  Decoder& decoder_;
  Context& target_;
  const std::vector<std::unique_ptr<Context>>& drafts_;
  HeadModel* head_;
};

}  // namespace specdec
