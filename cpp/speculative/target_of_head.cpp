#include "speculative/target_of_head.h"

#include <algorithm>
#include <utility>

namespace specdec {

const float* HiddenRows::row(int position) const {
  if (position < begin() || position >= end()) return nullptr;
  return rows_.data() + idx(position - first_) * size_;
}

void HiddenRows::put(int position, Token token, const float* row) {
  if (position < begin() || position > end()) {
    drop_from(begin());
    first_ = position;
  }
  drop_from(position);
  rows_.insert(rows_.end(), row, row + size_);
  try {
    tokens_.push_back(token);
  } catch (...) {
    rows_.resize(rows_.size() - size_);
    throw;
  }
}

void HiddenRows::drop_from(int position) {
  const auto left = idx(std::clamp(position - begin(), 0, end() - begin()));
  tokens_.resize(left);
  rows_.resize(left * size_);
}

void HiddenRows::drop_before(int position) {
  const int dropped = std::clamp(position - begin(), 0, end() - begin());
  tokens_.erase(tokens_.begin(), tokens_.begin() + dropped);
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(idx(dropped) * size_));
  first_ += dropped;
}

// Before the pass the cache holds only committed tokens.
void TargetOfHead::decode(const std::vector<PassInput>& inputs) {
  for (const PassInput& input : inputs) {
    HiddenRows& kept = head_.kept(input.slot);
    if (kept.end() - head_.num_read(input.slot) > max_unread) head_.catch_up(input.slot);
    // If a cycle fails, the head may have to read its last token, the one before the drafts, again.
    kept.drop_before(head_.num_read(input.slot) - 2);
  }
  std::vector<int> starts;
  for (const PassInput& input : inputs) starts.push_back(target_.length(input.slot));
  target_.decode(inputs);
  int row = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const PassInput& input = inputs[i];
    Nodes& nodes = nodes_[idx(input.slot)];
    if (input.parents == nullptr) nodes.clear();
    const int num_nodes = input.parents == nullptr ? 0 : static_cast<int>(input.parents->size() - nodes.tokens.size());
    for (int token = 0; token < input.num_tokens; ++token) {
      const float* const hidden = target_.hidden_row(row++);
      if (token < input.num_tokens - num_nodes) {
        head_.kept(input.slot).put(starts[i] + token, input.tokens[token], hidden);
      } else {
        nodes.tokens.push_back(input.tokens[token]);
        nodes.rows.insert(nodes.rows.end(), hidden, hidden + target_.hidden_size());
      }
    }
  }
}

void TargetOfHead::keep_path(int slot, const std::vector<int>& path) {
  target_.keep_path(slot, path);
  Nodes& nodes = nodes_[idx(slot)];
  HiddenRows& kept = head_.kept(slot);
  for (const int node : path)
    kept.put(kept.end(), nodes.tokens[idx(node)], nodes.rows.data() + idx(node) * idx(target_.hidden_size()));
  nodes.clear();
}

void TargetOfHead::truncate(int slot, int length) {
  HiddenRows& kept = head_.kept(slot);
  nodes_[idx(slot)].clear();
  kept.drop_from(length);
  target_.truncate(slot, length);
  const int needed = head_.needed_row(slot, length);
  if (needed >= 0 && kept.row(needed) == nullptr && target_.length(slot) > needed) target_.truncate(slot, needed);
}

void TargetOfHead::copy(int from, int to) {
  target_.copy(from, to);
  HiddenRows copied = head_.kept(from);
  head_.kept(to) = std::move(copied);
}

}  // namespace specdec
