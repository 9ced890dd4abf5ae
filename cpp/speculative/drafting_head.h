// Drafting heads: layers that read, with each token, the target's hidden row of the token before it, and predict the
// next token (multi-token prediction, NextN, EAGLE-3). They build on the target's understanding of the text, so one
// layer drafts as well as a whole draft model.
//
// DraftingHead makes such layers a LanguageModel, so that proposers use them like a draft model. It reads committed
// tokens with the target's rows. Drafts have no such rows yet: they are read with the head's own rows, one pass each
// (or for each level of a tree), and read again once they are committed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"
#include "speculative/target_of_head.h"

namespace specdec {

class DraftingHead final : public HeadModel {
 public:
  // The layers' target_row_size() is the target's hidden_size(). Both have num_slots slots.
  DraftingHead(HiddenRowModel& target, HeadLayers& layers, int num_slots);

  LanguageModel& target() override { return target_; }

  int vocabulary_size() const override { return layers_.vocabulary_size(); }
  int context_length() const override { return layers_.context_length(); }
  int batch_size() const override { return layers_.batch_size(); }
  int row_capacity() const override { return layers_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return layers_.is_end_of_generation(token); }
  // num_rows of each input must be 0 or 1, or of a tree as many as there are nodes.
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return layers_.logits(row); }
  int pass_size() const override { return pass_size_; }
  int length(int slot) const override { return layers_.length(slot); }
  // Drops all tokens that were read with the head's own rows.
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  bool reads_trees() const override { return layers_.reads_trees(); }

  void catch_up(int slot) override;
  int next_row_size() const override { return static_cast<int>(target_row_size_); }
  const float* next_row(int slot) const override;
  void restored(int slot, int length, Token last_token, const float* row) override;

 private:
  struct Slot {
    Slot(int target_row_size, std::size_t hidden_size) : kept(target_row_size), own(hidden_size) {}
    HiddenRows kept;     // of the target
    int num_read = 0;    // tokens read with the target's rows
    int own_length = 0;  // `own` is the head's row of token own_length - 1; 0: there is none
    std::vector<float> own;
    std::vector<float> of_nodes;  // the head's rows of the nodes of a tree
  };
  HiddenRows& kept(int slot) override { return at(slot).kept; }
  int num_read(int slot) const override { return at(slot).num_read; }
  int needed_row(int slot, int length) const override { return std::min(num_read(slot), length) - 1; }

  Slot& at(int slot) { return slots_[idx(slot)]; }
  const Slot& at(int slot) const { return slots_[idx(slot)]; }
  int steps(const PassInput& input) const;
  int readable(const PassInput& input, int position, int num_left) const;
  bool needs_own_row(int slot, int position) const;
  void collect_rows(const std::vector<PassInput>& inputs);
  void read(const std::vector<PassInput>& inputs);
  void read_nodes(const std::vector<PassInput>& inputs);

  HeadLayers& layers_;
  TargetOfHead target_;
  const LanguageModel& target_model_;
  std::size_t hidden_size_, target_row_size_;
  std::vector<Slot> slots_;
  int pass_size_ = 0;
  std::vector<float> hidden_;               // scratch: [tokens of a pass][hidden_size_]
  std::vector<float> target_rows_;          // scratch: [tokens with rows of the target][target_row_size_]
  std::vector<std::size_t> target_places_;  // scratch: in hidden_
};

}  // namespace specdec
