// Rolls back the state of recurrent layers (convolutions, state spaces, linear attention) after rejected drafts.
//
// Attention forgets the latest tokens by dropping their cells. A recurrent state summarises all tokens so far, so an
// earlier state must have been saved, in one of two ways:
// - snapshots: for some architectures llama.cpp writes the states after each of the latest tokens of a pass. They take
//   back any number of these tokens, once.
// - a checkpoint: a copy from before the drafts. Tokens accepted since then have to be read again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "llama/token_number.h"

struct llama_context;

namespace specdec {

class RecurrentState {
 public:
  RecurrentState(llama_context* context, int num_slots);

  // To be called when the slot reads position `next` next. Saves the state for truncate(), unless the snapshots of the
  // next pass (over pass_tokens tokens) suffice. pass_tokens 0: several passes follow.
  void checkpoint(int slot, Position next, int pass_tokens);

  // To be called before a pass that adds tokens to the slot. While the pass runs, and if it fails, the slot's state is
  // undefined; see recover().
  void begin_pass(int slot) { slots_[idx(slot)].can_undo = 0; }
  void end_pass(int slot, int num_tokens);

  // Drops the tokens from `end` on, of those before `next`, from recurrent state and attention. Returns what is read
  // next: `end`, or an earlier position if no state of that one was saved.
  Position truncate(int slot, Position next, Position end);
  // To be called after a failed pass that began at `end`; returns what is read next.
  Position recover(int slot, Position end);

  // To be called when the slot's cache was replaced.
  void forget(int slot) { slots_[idx(slot)] = {}; }

 private:
  struct Slot {
    int can_undo = 0;         // tokens that snapshots can take back
    Position checkpoint_end;  // of the checkpoint's tokens; 0: there is none
    std::vector<std::uint8_t> checkpoint;
  };
  bool restore_checkpoint(int slot);

  llama_context* context_;
  int num_snapshots_;
  std::vector<Slot> slots_;
};

}  // namespace specdec
