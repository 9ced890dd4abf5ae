#include "llama/recurrent_state.h"

#include <algorithm>
#include <stdexcept>

#include "base/failed_assertions.h"
#include "base/index.h"
#include "llama.h"

namespace specdec {
namespace {

constexpr llama_state_seq_flags recurrent_only = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

bool drop_tokens_from(llama_context* context, int slot, int length) {
  return llama_memory_seq_rm(llama_get_memory(context), slot, length, -1);
}

}  // namespace

RecurrentState::RecurrentState(llama_context* context, int num_slots)
    : context_(context), num_snapshots_(static_cast<int>(llama_n_rs_seq(context))), slots_(idx(num_slots)) {}

void RecurrentState::checkpoint(int slot, int length, int pass_tokens) {
  Slot& s = slots_[idx(slot)];
  if (length == 0 || length == s.checkpoint_length) return;
  if (pass_tokens > 0 && pass_tokens - 1 <= num_snapshots_) return;
  s.checkpoint.resize(llama_state_seq_get_size_ext(context_, slot, recurrent_only));
  const std::size_t size =
      llama_state_seq_get_data_ext(context_, s.checkpoint.data(), s.checkpoint.size(), slot, recurrent_only);
  s.checkpoint_length = size == s.checkpoint.size() ? length : 0;
}

// A pass of n tokens writes the states after each of the last tokens; the last state is the current one.
void RecurrentState::end_pass(int slot, int num_tokens) {
  slots_[idx(slot)].can_undo = std::min(num_snapshots_, num_tokens - 1);
}

int RecurrentState::truncate(int slot, int cached, int length) {
  Slot& s = slots_[idx(slot)];
  if (length >= cached) return cached;
  const bool can_undo = cached - length <= s.can_undo;
  s.can_undo = 0;  // llama.cpp can go back only once per pass
  if (length < s.checkpoint_length) s.checkpoint_length = 0;
  if (can_undo && length > 0 && drop_tokens_from(context_, slot, length)) return length;
  return recover(slot, length);
}

int RecurrentState::recover(int slot, int length) {
  Slot& s = slots_[idx(slot)];
  s.can_undo = 0;
  if (0 < s.checkpoint_length && s.checkpoint_length <= length && restore_checkpoint(slot)) return s.checkpoint_length;
  forget(slot);
  llama_memory_seq_rm(llama_get_memory(context_), slot, -1, -1);
  return 0;
}

bool RecurrentState::restore_checkpoint(int slot) {
  const Slot& s = slots_[idx(slot)];
  try {
    const AbortsAsErrors guard;
    return llama_state_seq_set_data_ext(context_, s.checkpoint.data(), s.checkpoint.size(), slot, recurrent_only) ==
               s.checkpoint.size() &&
           drop_tokens_from(context_, slot, s.checkpoint_length);
  } catch (const std::exception&) {  // a failed assertion
    return false;
  }
}

}  // namespace specdec
