#include "llama/recurrent_state.h"

#include <algorithm>
#include <stdexcept>

#include "base/failed_assertions.h"
#include "base/index.h"
#include "llama.h"

namespace specdec {
namespace {

constexpr llama_state_seq_flags recurrent_only = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

bool drop_tokens_from(llama_context* context, int slot, Position end) {
  return llama_memory_seq_rm(llama_get_memory(context), slot, end.value, -1);
}

}  // namespace

RecurrentState::RecurrentState(llama_context* context, int num_slots)
    : context_(context), num_snapshots_(static_cast<int>(llama_n_rs_seq(context))), slots_(idx(num_slots)) {}

void RecurrentState::checkpoint(int slot, Position next, int pass_tokens) {
  Slot& s = slots_[idx(slot)];
  if (next == Position() || next == s.checkpoint_end) return;
  if (pass_tokens > 0 && pass_tokens - 1 <= num_snapshots_) return;
  s.checkpoint.resize(llama_state_seq_get_size_ext(context_, slot, recurrent_only));
  const std::size_t size =
      llama_state_seq_get_data_ext(context_, s.checkpoint.data(), s.checkpoint.size(), slot, recurrent_only);
  s.checkpoint_end = size == s.checkpoint.size() ? next : Position();
}

// A pass of n tokens writes the states after each of the last tokens; the last state is the current one.
void RecurrentState::end_pass(int slot, int num_tokens) {
  slots_[idx(slot)].can_undo = std::min(num_snapshots_, num_tokens - 1);
}

Position RecurrentState::truncate(int slot, Position next, Position end) {
  Slot& s = slots_[idx(slot)];
  if (end >= next) return next;
  const bool can_undo = next - end <= s.can_undo;
  s.can_undo = 0;  // llama.cpp can go back only once per pass
  if (end < s.checkpoint_end) s.checkpoint_end = {};
  if (can_undo && end > Position() && drop_tokens_from(context_, slot, end)) return end;
  return recover(slot, end);
}

Position RecurrentState::recover(int slot, Position end) {
  Slot& s = slots_[idx(slot)];
  s.can_undo = 0;
  const bool fits = Position() < s.checkpoint_end && s.checkpoint_end <= end;
  if (fits && restore_checkpoint(slot)) return s.checkpoint_end;
  forget(slot);
  llama_memory_seq_rm(llama_get_memory(context_), slot, -1, -1);
  return {};
}

bool RecurrentState::restore_checkpoint(int slot) {
  const Slot& s = slots_[idx(slot)];
  try {
    const AbortsAsErrors guard;
    return llama_state_seq_set_data_ext(context_, s.checkpoint.data(), s.checkpoint.size(), slot, recurrent_only) ==
               s.checkpoint.size() &&
           drop_tokens_from(context_, slot, s.checkpoint_end);
  } catch (const std::exception&) {  // a failed assertion
    return false;
  }
}

}  // namespace specdec
