#include "llama/pass_policy.h"

#include <algorithm>
#include <climits>

#include "base/index.h"

namespace specdec {

const PlannedPasses& PassPolicy::plan(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots) {
  passes_.clear();
  if (inputs.empty()) return passes_;
  if (inputs.front().picture != nullptr) plan_picture(inputs.front());
  else if (shape_) plan_pieces(inputs, slots);
  else plan_one(inputs, slots);
  return passes_;
}

// Rows that attend to each other share a pass; the caller sees to it that they fit one.
void PassPolicy::plan_picture(const PassInput& input) {
  const Picture& picture = *input.picture;
  const int most = picture.rows->is_causal() ? limits_.batch_size : picture.num_rows;
  for (int row = 0; row < picture.num_rows; row += most) {
    PassPart part{input.slot, nullptr, std::min(most, picture.num_rows - row), 0, 0};
    part.picture = &picture;
    part.first_row = row;
    passes_.add().parts.push_back(part);
  }
}

// One pass over all inputs. llama.cpp splits a ragged one: a pass over the weights takes an equal number of tokens from
// each of several adjacent slots, and the rest goes into further passes. Padding makes it one.
void PassPolicy::plan_one(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots) {
  int width = 0, num_rows = 0;
  for (const PassInput& input : inputs) {
    width = std::max(width, input.num_tokens);
    num_rows += input.num_rows;
  }
  PlannedPass& pass = passes_.add();
  pass.end_row = num_rows > 0 ? INT_MAX : 0;  // heads make more rows than they are asked for
  const bool is_padded = inputs.size() > 1 && is_worth_padding(inputs, slots, width);
  auto input = inputs.begin();
  for (int slot = inputs.front().slot; slot <= inputs.back().slot; ++slot) {
    const bool has_input = input->slot == slot;
    if (!has_input && !is_padded) continue;
    PassPart part{slot, nullptr, 0, 0, 0};
    if (has_input) {
      part = {slot, input->tokens, input->num_tokens, input->num_rows, 0, input->parents};
      ++input;
    }
    if (is_padded) part.num_padding = width - part.num_tokens;
    pass.parts.push_back(part);
  }
}

// Assumes that a pass costs as much as reading the weights, which takes as long as computing about 8 tokens, plus its
// tokens.
bool PassPolicy::is_worth_padding(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots, int width) {
  constexpr int cost_of_weights = 8;
  const int first = inputs.front().slot, last = inputs.back().slot, padded = (last - first + 1) * width;
  if (!limits_.allows_padding || !limits_.takes_back || padded > limits_.batch_size) return false;
  const auto has_tree = [](const PassInput& input) { return input.parents != nullptr; };
  const bool has_trees = std::any_of(inputs.begin(), inputs.end(), has_tree);
  if (has_trees && !limits_.pads_trees) return false;
  for (int slot = first; slot <= last; ++slot) {
    const int num_nodes = slots[idx(slot)].num_nodes;
    if (slots[idx(slot)].next.value + num_nodes + width > limits_.context_length) return false;
    if (has_trees && num_nodes + width > max_tree_nodes) return false;
  }
  int passes = 0, num_tokens = 0;
  left_.clear();
  for (const PassInput& input : inputs) {
    num_tokens += input.num_tokens;
    left_.push_back(input.num_tokens);
  }
  const auto first_left = [this] {
    return idx(std::find_if(left_.begin(), left_.end(), [](int n) { return n > 0; }) - left_.begin());
  };
  for (std::size_t begin = 0, end = 0; begin < left_.size(); begin = first_left()) {
    int least = left_[begin];
    for (end = begin + 1; end < left_.size() && left_[end] > 0 && inputs[end].slot == inputs[end - 1].slot + 1; ++end) {
      least = std::min(least, left_[end]);
    }
    for (std::size_t i = begin; i < end; ++i) left_[i] -= least;
    ++passes;
  }
  return cost_of_weights + padded <= passes * cost_of_weights + num_tokens;
}

// Passes of the shape's widths, each over a piece of one input, or over the same piece of several.
void PassPolicy::plan_pieces(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots) {
  for (auto input = inputs.begin(); input != inputs.end();) {
    const auto end = shared_pass(input, inputs.end(), slots);
    const bool is_shared = end - input > 1;
    const Slot& slot = slots[idx(input->slot)];
    for (const PassShape::Piece& piece : pieces_of(*input, slot)) {
      const int read = piece.begin - slot.next, left = input->num_tokens - read - piece.count;
      const int num_rows = std::clamp(input->num_rows - left, 0, piece.count);
      PlannedPass& pass = passes_.add();
      pass.makes_all_rows = num_rows > 0;
      pass.first_row = piece.count - num_rows;
      pass.end_row = is_shared ? INT_MAX : piece.count;
      for (auto part = input; part != end; ++part)
        pass.parts.push_back({part->slot, part->tokens + read, piece.count, num_rows, piece.width - piece.count});
    }
    input = end;
  }
}

// Cuts prompt tokens into prompt pieces; tokens after the prompt, and tokens whose rows are wanted, into other passes.
std::vector<PassShape::Piece> PassPolicy::pieces_of(const PassInput& input, const Slot& slot) const {
  const Cell begin = slot.next, end = begin + input.num_tokens;
  const Cell prompt = input.num_rows > 0 ? begin : std::clamp(slot.prompt_end, begin, end);
  std::vector<PassShape::Piece> pieces = shape_->prompt_pieces(begin, prompt);
  const std::vector<PassShape::Piece> others = shape_->pieces(prompt, end);
  pieces.insert(pieces.end(), others.begin(), others.end());
  return pieces;
}

// The end of the inputs that can be read in one pass with the first one, with the bits that each has alone: llama.cpp
// computes equally many tokens of adjacent slots together, over as many cells as the longest slot needs.
PassPolicy::Inputs PassPolicy::shared_pass(Inputs first, Inputs end, const std::vector<Slot>& slots) const {
  const auto piece = [&](const PassInput& input) -> std::optional<PassShape::Piece> {
    if (input.num_rows != input.num_tokens || input.num_tokens > shape_->width) return std::nullopt;
    const std::vector<PassShape::Piece> pieces = pieces_of(input, slots[idx(input.slot)]);
    return pieces.size() == 1 ? std::optional(pieces.front()) : std::nullopt;
  };
  if (shape_->pads || !limits_.takes_back) return first + 1;
  const auto one = piece(*first);
  if (!one) return first + 1;
  int num_tokens = one->count;
  for (auto next = first + 1; next != end; ++next) {
    const auto other = piece(*next);
    num_tokens += one->count;
    const bool fits = other && next->slot == (next - 1)->slot + 1 && num_tokens <= shape_->width;
    if (!fits || other->count != one->count || PassShape::num_cells(*other) != PassShape::num_cells(*one)) return next;
  }
  return end;
}

}  // namespace specdec
