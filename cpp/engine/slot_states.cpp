#include "engine/slot_states.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/index.h"

namespace specdec {

// With several layers, each state is preceded by its size.
std::string ModelStates::draft_states(int slot) const {
  if (drafts_.size() == 1) return drafts_.front()->state(slot);
  std::string states;
  for (const auto& draft : drafts_) {
    const std::string state = draft->state(slot);
    const std::uint64_t size = state.size();
    states.append(reinterpret_cast<const char*>(&size), sizeof size);
    states += state;
  }
  return states;
}

bool ModelStates::restore_drafts(int slot, const std::string& states, int length) {
  if (drafts_.size() == 1) return drafts_.front()->restore(slot, states, length);
  std::size_t at = 0;
  for (const auto& draft : drafts_) {
    std::uint64_t size = 0;
    if (states.size() - at < sizeof size) return false;
    std::memcpy(&size, states.data() + at, sizeof size);
    at += sizeof size;
    if (states.size() - at < size || !draft->restore(slot, states.substr(at, size), length)) return false;
    at += size;
  }
  return at == states.size();
}

PrefixFile ModelStates::save(int slot, const Text& text, int length) {
  PrefixFile prefix;
  prefix.text = prefix_of(text, length);
  prefix.target_state = target_.state(slot);
  if (head_ != nullptr) head_->catch_up(slot);
  const float* const row = head_ != nullptr ? head_->next_row(slot) : nullptr;
  const bool has_row = row_bytes() == 0 || row != nullptr;
  const int num_read = drafts_.empty() ? 0 : drafts_.front()->length(slot);
  const auto is_behind = [&](const auto& draft) { return draft->length(slot) != num_read; };
  if (!drafts_.empty() && std::none_of(drafts_.begin(), drafts_.end(), is_behind) && num_read <= length && has_row) {
    prefix.num_draft_tokens = static_cast<std::uint64_t>(num_read);
    prefix.draft_state = draft_states(slot);
    if (row != nullptr) prefix.draft_state.append(reinterpret_cast<const char*>(row), row_bytes());
  }
  return prefix;
}

bool ModelStates::restore(int slot, const PrefixFile& prefix) {
  decoder_.keep_prefix(slot, 0);
  if (!target_.restore(slot, prefix.target_state, prefix.text.length())) return false;
  restore_draft(slot, prefix);
  return true;
}

// If this fails, the draft reads the prompt.
void ModelStates::restore_draft(int slot, const PrefixFile& prefix) {
  const auto length = static_cast<int>(prefix.num_draft_tokens);
  if (drafts_.empty() || length < 1 || length > drafts_.front()->context_length() ||
      prefix.draft_state.size() < row_bytes())
    return;
  const std::size_t size = prefix.draft_state.size() - row_bytes();
  if (!restore_drafts(slot, prefix.draft_state.substr(0, size), length)) {
    if (head_ != nullptr && drafts_.size() > 1) head_->truncate(slot, 0);
    return;
  }
  if (head_ == nullptr) return;
  std::vector<float> row(idx(head_->next_row_size()));
  std::memcpy(row.data(), prefix.draft_state.data() + size, row_bytes());
  head_->restored(slot, length, prefix.text.tokens[idx(length) - 1], row.data());
}

}  // namespace specdec
