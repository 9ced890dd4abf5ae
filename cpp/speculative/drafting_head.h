// Drafting heads: layers that read, with each token, the target's hidden row of the token before it, and predict the
// next token (multi-token prediction, NextN, EAGLE-3). They know what the target made of the text, so one layer drafts
// like a whole draft model.
//
// Here a head is a LanguageModel like a draft model, so that proposers need not know of it. It reads committed tokens
// with the target's rows. Drafts have none yet: they are read with the head's own rows, one pass each, and read again
// once they are committed.
#pragma once

#include <cstddef>
#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"

namespace specdec {

class DraftingHead;

// The hidden rows of consecutive tokens of a slot, and the tokens.
class HiddenRows {
 public:
  explicit HiddenRows(int size) : size_(idx(size)) {}

  int begin() const { return first_; }
  int end() const { return first_ + static_cast<int>(tokens_.size()); }
  // The row of the token at this position [size]; null: unknown.
  const float* row(int position) const;
  const Token* tokens(int position) const { return tokens_.data() + (position - first_); }

  // Replaces what is known from `position` on.
  void put(int position, Token token, const float* row);
  void drop_from(int position);
  void drop_before(int position);

 private:
  std::size_t size_;
  int first_ = 0;
  std::vector<Token> tokens_;
  std::vector<float> rows_;  // [tokens_.size()][size_]
};

// The target as the loop of a drafting head uses it: keeps the hidden rows that the head has not read yet.
class TargetOfHead final : public LanguageModel {
 public:
  TargetOfHead(HiddenRowModel& target, DraftingHead& head) : target_(target), head_(head) {}

  int vocabulary_size() const override { return target_.vocabulary_size(); }
  int context_length() const override { return target_.context_length(); }
  int batch_size() const override { return target_.batch_size(); }
  int row_capacity() const override { return target_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return target_.is_end_of_generation(token); }
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return target_.logits(row); }
  int pass_size() const override { return target_.pass_size(); }
  int length(int slot) const override { return target_.length(slot); }
  // May drop one token more, so that it is read again and its row is known.
  void truncate(int slot, int length) override;
  void checkpoint(int slot, int pass_tokens) override { target_.checkpoint(slot, pass_tokens); }
  void copy(int from, int to) override;

 private:
  HiddenRowModel& target_;
  DraftingHead& head_;
};

class DraftingHead final : public LanguageModel {
 public:
  // The layers' target_row_size() is the target's hidden_size(). Both have num_slots slots.
  DraftingHead(HiddenRowModel& target, HeadLayers& layers, int num_slots);

  // The loop must use the target through this.
  LanguageModel& target() { return target_; }

  int vocabulary_size() const override { return layers_.vocabulary_size(); }
  int context_length() const override { return layers_.context_length(); }
  int batch_size() const override { return layers_.batch_size(); }
  int row_capacity() const override { return layers_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return layers_.is_end_of_generation(token); }
  // num_rows of an input is 0 or 1.
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return layers_.logits(row); }
  int pass_size() const override { return pass_size_; }
  int length(int slot) const override { return layers_.length(slot); }
  // Drops all tokens that were read with the head's own rows.
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;

  // Reads the committed tokens whose rows are known. Only while the target's cache holds no drafts.
  void catch_up(int slot);
  int target_row_size() const { return static_cast<int>(target_row_size_); }
  // The row that the next token is read with, after catch_up(); null: none is known. [target_row_size()]
  const float* next_row(int slot) const;
  // The layers' cache was filled with the first `length` tokens; row: of the last of them.
  void restored(int slot, int length, Token last_token, const float* row);

 private:
  friend class TargetOfHead;
  struct Slot {
    Slot(int target_row_size, std::size_t hidden_size) : kept(target_row_size), own(hidden_size) {}
    HiddenRows kept;     // of the target
    int num_read = 0;    // tokens read with the target's rows
    int own_length = 0;  // own is the head's row of token own_length - 1; 0: of none
    std::vector<float> own;
  };
  Slot& at(int slot) { return slots_[idx(slot)]; }
  const Slot& at(int slot) const { return slots_[idx(slot)]; }
  int steps(const PassInput& input) const;
  int readable(const PassInput& input, int position, int num_left) const;
  bool needs_own_row(int slot, int position) const;
  void collect_rows(const std::vector<PassInput>& inputs);
  void read(const std::vector<PassInput>& inputs);

  HeadLayers& layers_;
  TargetOfHead target_;
  const LanguageModel& target_model_;
  std::size_t hidden_size_, target_row_size_;
  std::vector<Slot> slots_;
  int pass_size_ = 0;
  std::vector<float> hidden_;               // scratch: [tokens of a pass][hidden_size_]
  std::vector<float> target_rows_;          // scratch: [those of them with rows of the target][target_row_size_]
  std::vector<std::size_t> target_places_;  // scratch: in hidden_
};

}  // namespace specdec
