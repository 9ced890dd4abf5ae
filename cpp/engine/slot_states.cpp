#include "engine/slot_states.h"

#include <cstring>

#include "base/index.h"

namespace specdec {

PrefixFile ModelStates::save(int slot, const std::vector<Token>& tokens, int length) {
  PrefixFile prefix;
  prefix.tokens.assign(tokens.begin(), tokens.begin() + length);
  prefix.target_state = target_.state(slot);
  if (head_ != nullptr) head_->catch_up(slot);
  const float* const row = head_ != nullptr ? head_->next_row(slot) : nullptr;
  const bool has_row = row_bytes() == 0 || row != nullptr;
  if (draft_ != nullptr && draft_->length(slot) <= length && has_row) {
    prefix.num_draft_tokens = static_cast<std::uint64_t>(draft_->length(slot));
    prefix.draft_state = draft_->state(slot);
    if (row != nullptr) prefix.draft_state.append(reinterpret_cast<const char*>(row), row_bytes());
  }
  return prefix;
}

bool ModelStates::restore(int slot, const PrefixFile& prefix) {
  decoder_.keep_prefix(slot, 0);
  if (!target_.restore(slot, prefix.target_state, static_cast<int>(prefix.tokens.size()))) return false;
  restore_draft(slot, prefix);
  return true;
}

// Otherwise the draft reads the prompt.
void ModelStates::restore_draft(int slot, const PrefixFile& prefix) {
  const auto length = static_cast<int>(prefix.num_draft_tokens);
  if (draft_ == nullptr || length < 1 || length > draft_->context_length() || prefix.draft_state.size() < row_bytes())
    return;
  const std::size_t size = prefix.draft_state.size() - row_bytes();
  if (!draft_->restore(slot, prefix.draft_state.substr(0, size), length) || head_ == nullptr) return;
  std::vector<float> row(idx(head_->next_row_size()));
  std::memcpy(row.data(), prefix.draft_state.data() + size, row_bytes());
  head_->restored(slot, length, prefix.tokens[idx(length) - 1], row.data());
}

}  // namespace specdec
