#include "speculative/layered_head.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace specdec {
namespace {

constexpr int most_before_tree = 8;  // committed tokens that a layer reads in the same pass

}  // namespace

LayeredHead::LayeredHead(HiddenRowModel& target, std::vector<HeadLayers*> layers, int num_slots)
    : layers_(std::move(layers)),
      target_(target, *this, num_slots),
      target_model_(target),
      row_size_(idx(target.hidden_size())),
      slots_(idx(num_slots), Slot(target.hidden_size(), layers_.size())) {
  const auto fits = [&](const HeadLayers* layer) {
    return layer->hidden_size() == target.hidden_size() && layer->target_row_size() == target.hidden_size();
  };
  if (layers_.empty() || !std::all_of(layers_.begin(), layers_.end(), fits))
    throw std::logic_error("the layers of a head must read its target's hidden rows as they are");
}

int LayeredHead::num_read(int slot) const {
  const std::vector<int>& read = at(slot).num_read;
  return *std::min_element(read.begin(), read.end());
}

int LayeredHead::needed_row(int slot, int length) const { return std::min(num_read(slot), length) - 1; }

Token LayeredHead::token(const Slot& s, int position) const {
  const bool is_kept = position >= s.kept.begin() && position < s.kept.end();
  return is_kept ? *s.kept.tokens(position) : s.tokens[idx(position)];
}

void LayeredHead::forget_drafts(int slot) {
  Slot& s = at(slot);
  s.own.clear();
  s.tree = {};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->truncate(slot, s.num_read[i]);
    s.num_read[i] = std::min(s.num_read[i], layers_[i]->length(slot));
  }
}

bool LayeredHead::reads_trees() const {
  return std::all_of(layers_.begin(), layers_.end(), [](const HeadLayers* layer) { return layer->reads_trees(); });
}

// A layer may have to read the whole tree, and in a batch those of the other sequences, too.
int LayeredHead::room_for_nodes(int slot, int level, int num_nodes) const {
  const int share = batch_size() / static_cast<int>(slots_.size());
  return std::min(LanguageModel::room_for_nodes(slot, level, num_nodes), share - most_before_tree - num_nodes);
}

// Collects what the layer has not read of the slot: committed tokens and nodes of the tree, with their rows.
void LayeredHead::collect_unread(int layer, const PassInput& input, std::vector<Token>& tokens) {
  Slot& s = at(input.slot);
  const auto add = [&](Token token, const float* row) {
    tokens.push_back(token);
    if (row == nullptr) rows_.insert(rows_.end(), row_size_, 0.0f);
    else rows_.insert(rows_.end(), row, row + row_size_);
  };
  for (int position = layers_[idx(layer)]->length(input.slot); position <= s.own_begin; ++position)
    add(token(s, position), s.kept.row(position - 1));
  int& num_read = s.tree.num_read[idx(layer)];
  for (; num_read < static_cast<int>(s.tree.tokens.size()); ++num_read) {
    const int parent = (*input.parents)[idx(num_read)];
    const float* const row = parent < 0 ? s.own.data() : s.tree.rows.data() + idx(parent) * row_size_;
    add(s.tree.tokens[idx(num_read)], row);
  }
}

void LayeredHead::read_level(const std::vector<PassInput>& inputs) {
  const auto place_of = [](const PassInput& input) {  // of the level's rows
    int place = 1;
    for (int node = input.parents->back(); node >= 0; node = (*input.parents)[idx(node)]) ++place;
    return place;
  };
  const int place = place_of(inputs.front()), layer = layer_of(place);
  HeadLayers& one = *layers_[idx(layer)];
  try {
    for (const PassInput& input : inputs) {
      Slot& s = at(input.slot);
      if (num_own(s) == 0 || place_of(input) != place) throw std::logic_error("a tree must be read level by level");
      const bool is_first = static_cast<int>(input.parents->size()) == input.num_tokens;
      if (is_first) s.tree = {{}, {}, std::vector<int>(layers_.size(), 0)};
      s.tree.tokens.insert(s.tree.tokens.end(), input.tokens, input.tokens + input.num_tokens);
      if (s.own_begin + 1 - one.length(input.slot) > most_before_tree) read(layer, input.slot, s.own_begin);
    }
    rows_.clear();
    inputs_.clear();
    level_tokens_.assign(inputs.size(), {});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<Token>& tokens = level_tokens_[i];
      collect_unread(layer, inputs[i], tokens);
      inputs_.push_back(inputs[i]);
      inputs_.back().tokens = tokens.data();
      inputs_.back().num_tokens = static_cast<int>(tokens.size());
      inputs_.back().num_rows = inputs[i].num_tokens;
    }
    one.decode_with(inputs_, rows_.data());
  } catch (...) {
    for (const PassInput& input : inputs) forget_drafts(input.slot);
    throw;
  }
  pass_size_ = one.pass_size();
  logits_.clear();
  int end = 0;
  for (const PassInput& input : inputs_) {
    Slot& s = at(input.slot);
    s.num_read[idx(layer)] = one.length(input.slot);
    end += input.num_tokens;
    for (int token = end - input.num_rows; token < end; ++token) {
      const float* const row = one.hidden_row(token);
      s.tree.rows.insert(s.tree.rows.end(), row, row + row_size_);
      logits_.push_back(one.logits(static_cast<int>(logits_.size())));
    }
  }
}

void LayeredHead::decode(const std::vector<PassInput>& inputs) {
  if (!inputs.empty() && inputs.front().parents != nullptr) return read_level(inputs);
  pass_size_ = 0;
  logits_.clear();
  std::vector<int> starts;
  for (const PassInput& input : inputs) {
    if (input.num_rows > 1) throw std::logic_error("a drafting head makes one row of logits per sequence");
    Slot& s = at(input.slot);
    starts.push_back(length(input.slot));
    if (s.own_begin != anchor(input.slot)) forget_drafts(input.slot);
    s.own_begin = anchor(input.slot);
    s.tokens.insert(s.tokens.end(), input.tokens, input.tokens + input.num_tokens);
  }
  try {
    for (const PassInput& input : inputs) {
      const HiddenRows& kept = at(input.slot).kept;
      const bool lacks_rows = (kept.empty() ? anchor(input.slot) : kept.begin()) > num_read(input.slot);
      if (input.num_rows == 0 || lacks_rows) read_known(input.slot, std::min(length(input.slot), anchor(input.slot)));
    }
    make_rows(inputs);
  } catch (...) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      forget_drafts(inputs[i].slot);
      at(inputs[i].slot).tokens.resize(idx(starts[i]));
    }
    throw;
  }
}

// Computes missing rows of earlier drafts (copies of text have none), then the rows of logits, in one pass per layer.
void LayeredHead::make_rows(const std::vector<PassInput>& inputs) {
  struct Wanted {
    int slot, place;
    std::size_t row;
  };
  std::vector<Wanted> wanted;
  for (const PassInput& input : inputs) {
    if (input.num_rows == 0) continue;
    Slot& s = at(input.slot);
    const int place = std::max(0, length(input.slot) - 1 - s.own_begin);
    if (num_own(s) > place) forget_drafts(input.slot);
    wanted.push_back({input.slot, place, wanted.size()});
  }
  for (bool is_ready = false; !is_ready;) {
    is_ready = true;
    for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
      std::vector<Step> steps;
      for (const Wanted& one : wanted) {
        const Slot& s = at(one.slot);
        const int next = num_own(s);
        if (next < one.place && layer_of(next) == layer) steps.push_back({one.slot, s.own_begin + next + 1});
        is_ready = is_ready && next >= one.place;
      }
      if (!steps.empty()) pass(layer, steps, 0);
    }
  }
  logits_.resize(wanted.size());
  for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) {
    std::vector<Step> steps;
    std::vector<std::size_t> rows;
    for (const Wanted& one : wanted) {
      if (layer_of(one.place) != layer) continue;
      steps.push_back({one.slot, length(one.slot)});
      rows.push_back(one.row);
    }
    if (!steps.empty()) pass(layer, steps, 1);
    for (std::size_t i = 0; i < rows.size(); ++i) logits_[rows[i]] = layers_[idx(layer)]->logits(static_cast<int>(i));
  }
}

// Lets all layers read the tokens before `end`. Tokens of a cache that was restored without rows are read with zeros.
void LayeredHead::read_known(int slot, int end) {
  for (int layer = 0; layer < static_cast<int>(layers_.size()); ++layer) read(layer, slot, end);
}

void LayeredHead::read(int layer, int slot, int end) {
  HeadLayers& one = *layers_[idx(layer)];
  while (one.length(slot) < end) pass(layer, {{slot, std::min(end, one.length(slot) + one.batch_size())}}, 0);
}

// The last token of each step is always read; its row is remembered if the token is a draft.
void LayeredHead::pass(int layer, const std::vector<Step>& steps, int num_rows) {
  HeadLayers& one = *layers_[idx(layer)];
  int num_tokens = 0;
  for (const Step& step : steps) {
    if (one.length(step.slot) >= step.end) {
      one.truncate(step.slot, step.end - 1);
      int& read = at(step.slot).num_read[idx(layer)];
      read = std::min(read, one.length(step.slot));
    }
    num_tokens += step.end - one.length(step.slot);
  }
  if (num_tokens > one.batch_size()) {
    for (const Step& step : steps) read(layer, step.slot, step.end - 1);
    num_tokens = static_cast<int>(steps.size());
  }
  rows_.assign(idx(num_tokens) * row_size_, 0.0f);
  read_tokens_.clear();
  float* to = rows_.data();
  for (const Step& step : steps) {
    const Slot& s = at(step.slot);
    for (int position = one.length(step.slot); position < step.end; ++position, to += row_size_) {
      read_tokens_.push_back(token(s, position));
      const float* const row = position > s.own_begin ? s.own.data() + idx(position - 1 - s.own_begin) * row_size_
                                                      : s.kept.row(position - 1);
      if (row != nullptr) std::copy_n(row, row_size_, to);
    }
  }
  inputs_.clear();
  const Token* tokens = read_tokens_.data();
  for (const Step& step : steps) {
    const int count = step.end - one.length(step.slot);
    inputs_.push_back({step.slot, tokens, count, num_rows});
    tokens += count;
  }
  one.decode_with(inputs_, rows_.data());
  pass_size_ += one.pass_size();
  int last = -1;
  for (const PassInput& input : inputs_) {
    Slot& s = at(input.slot);
    last += input.num_tokens;
    const int end = one.length(input.slot);
    s.num_read[idx(layer)] = std::min(end, s.own_begin + 1);
    const bool is_next_row = end - 1 == s.own_begin + num_own(s);
    const float* const row = one.hidden_row(last);
    if (is_next_row) s.own.insert(s.own.end(), row, row + row_size_);
  }
}

// The loop supplies the last committed token again.
void LayeredHead::truncate(int slot, int length) {
  Slot& s = at(slot);
  for (int& read : s.num_read) read = std::min(read, length);
  forget_drafts(slot);
  s.tokens.resize(std::min(s.tokens.size(), idx(std::max(0, std::min(length, anchor(slot))))));
}

void LayeredHead::copy(int from, int to) {
  for (HeadLayers* const layer : layers_) layer->copy(from, to);
  at(to).num_read = at(from).num_read;
  at(to).tokens = at(from).tokens;
  forget_drafts(to);
}

void LayeredHead::catch_up(int slot) {
  forget_drafts(slot);
  Slot& s = at(slot);
  s.own_begin = anchor(slot);
  const int end = std::min(s.kept.end(), context_length());
  if (s.kept.begin() > num_read(slot)) {  // the tokens in between are not known here; the loop supplies them
    s.kept.drop_before(end - max_unread);
    return;
  }
  read_known(slot, end);
  forget_drafts(slot);  // drafts that are committed now
}

void LayeredHead::restored(int slot, int length, Token last_token, const float* row) {
  Slot& s = at(slot);
  std::fill(s.num_read.begin(), s.num_read.end(), length);
  s.tokens.assign(idx(length), 0);
  s.own.clear();
  if (length > 0) s.kept.put(length - 1, last_token, row);
}

}  // namespace specdec
