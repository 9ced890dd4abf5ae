#include "speculative/block_drafter.h"

#include <algorithm>
#include <stdexcept>

namespace specdec {

BlockDrafter::BlockDrafter(HiddenRowModel& target, BlockLayers& layers, int num_slots)
    : layers_(layers), target_(target, *this, num_slots), slots_(idx(num_slots), Slot(target.hidden_size())) {
  if (layers.target_row_size() != target.hidden_size())
    throw std::logic_error("a block drafter must read its target's hidden rows");
}

// Tokens before this position are read by their hidden rows; the token at it is the anchor.
int BlockDrafter::known_end(int slot) const {
  const Slot& s = at(slot);
  return s.kept.empty() ? s.num_read : std::max(s.num_read, s.kept.end());
}

int BlockDrafter::wanted_places(int slot) const {
  const int expected = at(slot).num_expected, most = layers_.most_places();
  return expected > 0 ? std::min(expected, most) : most;
}

bool BlockDrafter::has_row(int slot, int length) const {
  const int at_place = place(slot, length);
  return at_place >= 0 && at_place < at(slot).num_places;
}

// Skips the rows of a cache that was restored without them.
void BlockDrafter::skip_lost_rows(int slot) {
  Slot& s = at(slot);
  const int begin = s.kept.empty() ? target_.length(slot) : s.kept.begin();
  if (s.num_read >= begin) return;
  layers_.empty(slot, begin);
  s.num_read = begin;
}

void BlockDrafter::decode(const std::vector<PassInput>& inputs) {
  pass_size_ = 0;
  logits_.clear();
  confidences_.clear();
  read(inputs);
  std::vector<int> unfilled;
  for (const PassInput& input : inputs) {
    if (input.parents != nullptr) continue;
    if (input.num_rows > 1) throw std::logic_error("a block drafter makes one row of logits per sequence");
    Slot& s = at(input.slot);
    const int length = s.length + input.num_tokens, anchor = known_end(input.slot);
    if (s.length <= anchor && anchor < length) s.anchor = input.tokens[anchor - s.length];
    if (input.num_rows == 0 || has_row(input.slot, length)) continue;
    if (place(input.slot, length) >= layers_.most_places()) throw std::logic_error("a row beyond the block");
    unfilled.push_back(input.slot);
  }
  if (!unfilled.empty()) fill(unfilled);
  for (const PassInput& input : inputs) {
    if (input.parents != nullptr) {
      add_rows_of_nodes(input);
      continue;
    }
    Slot& s = at(input.slot);
    s.length += input.num_tokens;
    if (input.num_rows > 0) add_row(input.slot, s.length, input.tokens[input.num_tokens - 1]);
  }
}

// Of the input's nodes, the last ones of the tree.
void BlockDrafter::add_rows_of_nodes(const PassInput& input) {
  const std::vector<int>& parents = *input.parents;
  for (int i = 0; i < input.num_tokens; ++i) {
    int depth = 0;
    for (int node = static_cast<int>(parents.size()) - input.num_tokens + i; node >= 0; node = parents[idx(node)])
      ++depth;
    add_row(input.slot, at(input.slot).length + depth, input.tokens[i]);
  }
}

// Reads the known rows of the inputs' tokens, and of accepted drafts, which so far were only in a block. So there may
// be more rows than input tokens, and this may take several passes.
void BlockDrafter::read(const std::vector<PassInput>& inputs) {
  std::vector<BlockLayers::Rows> readings;
  target_rows_.clear();
  int room = batch_size();
  const auto pass = [&] {
    if (readings.empty()) return;
    save_rows();
    layers_.read(readings, target_rows_.data());
    pass_size_ += layers_.pass_size();
    for (const BlockLayers::Rows& reading : readings) at(reading.slot).num_read += reading.count;
    readings.clear();
    target_rows_.clear();
    room = batch_size();
  };
  for (const PassInput& input : inputs) {
    skip_lost_rows(input.slot);
    Slot& s = at(input.slot);
    const int end = std::min(s.length + input.num_tokens, known_end(input.slot));
    for (int begin = s.num_read; begin < end;) {
      if (room == 0) pass();
      const int count = std::min(end - begin, room);
      readings.push_back({input.slot, count});
      target_rows_.insert(target_rows_.end(), s.kept.row(begin),
                          s.kept.row(begin + count - 1) + layers_.target_row_size());
      begin += count;
      room -= count;
    }
  }
  pass();
}

// One pass for all slots with the same number of places: a block's rows must not depend on what shares the pass.
void BlockDrafter::fill(const std::vector<int>& slots) {
  std::vector<int> left = slots;
  while (!left.empty()) {
    const int num_places = wanted_places(left.front());
    std::vector<BlockLayers::Block> blocks;
    std::vector<int> others;
    for (const int slot : left) {
      const bool joins =
          wanted_places(slot) == num_places && static_cast<int>(blocks.size()) < layers_.blocks_per_pass(num_places);
      if (joins) blocks.push_back({slot, at(slot).anchor});
      else others.push_back(slot);
    }
    save_rows();
    layers_.fill(blocks, num_places);
    pass_size_ += layers_.pass_size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Slot& s = at(blocks[i].slot);
      s.num_places = num_places;
      s.first_row = static_cast<int>(i) * num_places;
      if (!layers_.has_confidences()) continue;
      s.scores.clear();
      for (int row = s.first_row; row < s.first_row + num_places; ++row) s.scores.push_back(layers_.score(row));
    }
    left = others;
  }
}

// Copies the layers' rows, which are valid only until their next pass.
void BlockDrafter::save_rows() {
  const auto size = idx(vocabulary_size());
  for (Slot& s : slots_) {
    if (s.num_places == 0 || s.first_row < 0) continue;
    s.rows.resize(idx(s.num_places) * size);
    for (int i = 0; i < s.num_places; ++i)
      std::copy_n(layers_.logits(s.first_row + i), size, s.rows.begin() + static_cast<std::ptrdiff_t>(idx(i) * size));
    s.first_row = -1;
  }
}

// The row of the slot's place after `length` tokens, the last of which is `before`.
void BlockDrafter::add_row(int slot, int length, Token before) {
  const Slot& s = at(slot);
  const int i = place(slot, length);
  const auto size = idx(vocabulary_size());
  const float* const logits = s.first_row < 0 ? s.rows.data() + idx(i) * size : layers_.logits(s.first_row + i);
  if (layers_.has_confidences()) confidences_.push_back(layers_.confidence_of(s.scores[idx(i)], before));
  const std::size_t index = logits_.size();
  logits_.push_back(logits);
  if (!layers_.finishes_rows()) return;
  if (finished_.size() <= index) finished_.resize(index + 1);
  finished_[index].assign(logits, logits + size);
  layers_.finish_row(before, finished_[index].data());
  logits_[index] = finished_[index].data();
}

std::optional<double> BlockDrafter::confidence(int row) const {
  return confidences_.empty() ? std::nullopt : std::optional(confidences_[idx(row)]);
}

void BlockDrafter::truncate(int slot, int length) {
  Slot& s = at(slot);
  s.num_places = 0;
  if (length < s.num_read) {
    layers_.truncate(slot, length);
    s.num_read = layers_.length(slot);
  }
  s.length = std::min({length, s.length, known_end(slot)});
}

void BlockDrafter::copy(int from, int to) {
  layers_.copy(from, to);
  at(to).num_read = layers_.length(to);
  at(to).length = at(from).length;
  truncate(to, at(to).length);
}

void BlockDrafter::catch_up(int slot) {
  Slot& s = at(slot);
  s.num_places = 0;
  skip_lost_rows(slot);
  const int end = known_end(slot);
  while (s.num_read < end) {
    const int count = std::min(end - s.num_read, batch_size());
    save_rows();
    layers_.read({{slot, count}}, s.kept.row(s.num_read));
    s.num_read += count;
  }
  s.length = s.num_read;
}

void BlockDrafter::restored(int slot, int length, Token /*last_token*/, const float* /*row*/) {
  Slot& s = at(slot);
  s.num_read = s.length = length;
  s.num_places = 0;
}

}  // namespace specdec
