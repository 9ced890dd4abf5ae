#include "speculative/drafting_head.h"

#include <algorithm>
#include <stdexcept>

#include "base/index.h"

namespace specdec {

DraftingHead::DraftingHead(HiddenRowModel& target, HeadLayers& layers, int num_slots)
    : layers_(layers),
      target_(target, *this, num_slots),
      target_model_(target),
      hidden_size_(idx(layers.hidden_size())),
      target_row_size_(idx(target.hidden_size())),
      slots_(idx(num_slots), Slot(target.hidden_size(), hidden_size_)) {
  if (hidden_size_ == 0 || layers.target_row_size() != target.hidden_size()) {
    throw std::logic_error("a drafting head must read its target's hidden rows");
  }
}

// Whether the target's row before this position is not there yet. The first token has no row before it, and the rows of
// a cache that was restored without them are unknown: both are read with zeros.
bool DraftingHead::needs_own_row(int slot, int position) const {
  return at(slot).kept.row(position - 1) == nullptr && position > target_model_.length(slot);
}

// How many of the tokens from `position` on can be read in one pass: those after the first must not need the head's own
// rows.
int DraftingHead::readable(const PassInput& input, int position, int num_left) const {
  int count = 1;
  while (count < num_left && !needs_own_row(input.slot, position + count)) ++count;
  return count;
}

// The number of passes that the input takes.
int DraftingHead::steps(const PassInput& input) const {
  int steps = 0;
  for (int done = 0; done < input.num_tokens; ++steps)
    done += readable(input, length(input.slot) + done, input.num_tokens - done);
  return steps;
}

// Each node with its parent's row; the first level with that of the last token before the tree.
void DraftingHead::read_nodes(const std::vector<PassInput>& inputs) {
  hidden_.clear();
  for (const PassInput& input : inputs) {
    Slot& s = at(input.slot);
    const auto first = static_cast<int>(input.parents->size()) - input.num_tokens;
    if (first == 0) s.of_nodes.clear();
    if (s.own_length != length(input.slot)) throw std::logic_error("a tree must follow a row of the head");
    for (int i = 0; i < input.num_tokens; ++i) {
      const int parent = (*input.parents)[idx(first + i)];
      const float* const row = parent < 0 ? s.own.data() : s.of_nodes.data() + idx(parent) * hidden_size_;
      hidden_.insert(hidden_.end(), row, row + hidden_size_);
    }
  }
  layers_.decode_with(inputs, hidden_.data());
  pass_size_ = layers_.pass_size();
  int token = 0;
  for (const PassInput& input : inputs) {
    std::vector<float>& rows = at(input.slot).of_nodes;
    for (int i = 0; i < input.num_tokens; ++i) {
      const float* const row = layers_.hidden_row(token++);
      rows.insert(rows.end(), row, row + hidden_size_);
    }
  }
}

// Inputs that take fewer passes than others begin later, so that all rows of logits come from the last pass.
void DraftingHead::decode(const std::vector<PassInput>& inputs) {
  if (!inputs.empty() && inputs.front().parents != nullptr) return read_nodes(inputs);
  struct Rest {
    int start, steps, done;
  };
  std::vector<Rest> rests;
  int left = 0;
  for (const PassInput& input : inputs) {
    if (input.num_rows > 1) throw std::logic_error("a drafting head makes one row of logits per sequence");
    rests.push_back({length(input.slot), steps(input), 0});
    left = std::max(left, rests.back().steps);
  }
  pass_size_ = 0;
  std::vector<PassInput> parts;
  try {
    for (; left > 0; --left) {
      parts.clear();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Rest& rest = rests[i];
        if (rest.steps < left) continue;
        PassInput part = inputs[i];
        part.tokens += rest.done;
        part.num_tokens = readable(part, rest.start + rest.done, inputs[i].num_tokens - rest.done);
        if (left > 1) part.num_rows = 0;
        rest.done += part.num_tokens;
        parts.push_back(part);
      }
      read(parts);
      pass_size_ += layers_.pass_size();
    }
  } catch (...) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Slot& s = at(inputs[i].slot);
      layers_.truncate(inputs[i].slot, rests[i].start);
      s.num_read = std::min(s.num_read, length(inputs[i].slot));
      s.own_length = 0;
    }
    throw;
  }
}

// Fills hidden_ with the row that each token of the inputs is read with.
void DraftingHead::collect_rows(const std::vector<PassInput>& inputs) {
  hidden_.clear();
  target_rows_.clear();
  target_places_.clear();
  for (const PassInput& input : inputs) {
    const Slot& s = at(input.slot);
    for (int i = 0; i < input.num_tokens; ++i) {
      const int position = length(input.slot) + i;
      const std::size_t place = hidden_.size();
      hidden_.resize(place + hidden_size_, 0.0f);
      if (const float* row = s.kept.row(position - 1)) {
        target_places_.push_back(place);
        target_rows_.insert(target_rows_.end(), row, row + target_row_size_);
      } else if (needs_own_row(input.slot, position) && s.own_length == position) {
        std::copy(s.own.begin(), s.own.end(), hidden_.begin() + static_cast<std::ptrdiff_t>(place));
      }
    }
  }
  if (target_places_.empty()) return;
  const float* fused = layers_.fuse(target_rows_.data(), static_cast<int>(target_places_.size()));
  for (const std::size_t place : target_places_) {
    std::copy_n(fused, hidden_size_, hidden_.begin() + static_cast<std::ptrdiff_t>(place));
    fused += hidden_size_;
  }
}

void DraftingHead::read(const std::vector<PassInput>& inputs) {
  collect_rows(inputs);
  layers_.decode_with(inputs, hidden_.data());
  int last = -1;
  for (const PassInput& input : inputs) {
    Slot& s = at(input.slot);
    last += input.num_tokens;
    const int before = length(input.slot) - input.num_tokens;
    if (before == s.num_read) {
      while (s.num_read < length(input.slot) && !needs_own_row(input.slot, s.num_read)) ++s.num_read;
    }
    const float* row = layers_.hidden_row(last);
    s.own.assign(row, row + hidden_size_);
    s.own_length = length(input.slot);
  }
}

void DraftingHead::truncate(int slot, int length) {
  Slot& s = at(slot);
  layers_.truncate(slot, std::min(length, s.num_read));
  s.num_read = std::min(s.num_read, this->length(slot));
  s.own_length = 0;
}

void DraftingHead::copy(int from, int to) {
  layers_.copy(from, to);
  at(to).num_read = at(from).num_read;
  truncate(to, at(to).num_read);
}

void DraftingHead::catch_up(int slot) {
  Slot& s = at(slot);
  truncate(slot, s.num_read);
  const int end = std::min(s.kept.end(), context_length());
  if (s.kept.begin() > s.num_read) {  // the tokens in between are not known here; the loop supplies them
    s.kept.drop_before(end - max_unread);
    return;
  }
  while (s.num_read < end) {
    const int before = s.num_read;
    decode({{slot, s.kept.tokens(before), std::min(end - before, batch_size()), 0}});
    if (s.num_read == before) return;
  }
}

const float* DraftingHead::next_row(int slot) const { return at(slot).kept.row(at(slot).num_read - 1); }

void DraftingHead::restored(int slot, int length, Token last_token, const float* row) {
  Slot& s = at(slot);
  s.num_read = length;
  s.own_length = 0;
  if (length > 0) s.kept.put(length - 1, last_token, row);
}

}  // namespace specdec
