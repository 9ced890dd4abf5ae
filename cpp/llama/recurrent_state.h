// Rolls back the state of recurrent layers (convolutions, state spaces, linear attention) after rejected drafts.
//
// Attention forgets the latest tokens by dropping their cells. A recurrent state is a summary of all tokens so far, so
// an earlier one must have been kept. Two ways:
// - snapshots: for some architectures llama.cpp writes the states after each of the latest tokens of a pass. They take
// back any
//   number of these once.
// - a checkpoint: a copy from before the drafts. What was accepted since then has to be read again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"

struct llama_context;

namespace specdec {

class RecurrentState {
 public:
  RecurrentState(llama_context* context, int num_slots);

  // `length` tokens are in the slot. Keeps the state for truncate(), unless the snapshots of the next pass, of
  // pass_tokens tokens, suffice. pass_tokens 0: several passes follow.
  void checkpoint(int slot, int length, int pass_tokens);

  // A pass adds tokens to the slot. While it runs, or if it fails, its state is undefined: see recover().
  void begin_pass(int slot) { slots_[idx(slot)].can_undo = 0; }
  void end_pass(int slot, int num_tokens);

  // Drops the tokens from `length` on, recurrent state and attention alike. Returns the new length: `length`, or less
  // if no state of that length was kept.
  int truncate(int slot, int cached, int length);
  // After a failed pass that began with `length` tokens; returns the new length.
  int recover(int slot, int length);

  // The slot's cache was replaced.
  void forget(int slot) { slots_[idx(slot)] = {}; }

 private:
  struct Slot {
    int can_undo = 0;           // tokens that snapshots can take back
    int checkpoint_length = 0;  // tokens of the checkpoint; 0: none
    std::vector<std::uint8_t> checkpoint;
  };
  bool restore_checkpoint(int slot);

  llama_context* context_;
  int num_snapshots_;
  std::vector<Slot> slots_;
};

}  // namespace specdec
