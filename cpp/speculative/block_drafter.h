// Block drafters: layers that read the target's hidden rows of the committed tokens and draft a whole block in one pass
// (DFlash, DSpark).
//
// BlockDrafter makes such layers a LanguageModel, so that proposers use them like a draft model. The first row that is
// asked for in a cycle takes a pass, which computes the rows of all places; the other rows need none. A place's row
// depends on the committed tokens, on the place and, if the layers add a bias, on the token before it. All of these are
// known before anything is sampled from the row.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"
#include "speculative/target_of_head.h"

namespace specdec {

class BlockDrafter final : public HeadModel {
 public:
  // The layers' target_row_size() is the target's hidden_size(). Both have num_slots slots.
  BlockDrafter(HiddenRowModel& target, BlockLayers& layers, int num_slots);

  LanguageModel& target() override { return target_; }

  int vocabulary_size() const override { return layers_.vocabulary_size(); }
  int context_length() const override { return target_.context_length(); }
  int end(int slot) const override { return known_end(slot) + layers_.most_places(); }
  int batch_size() const override { return layers_.batch_size(); }
  int row_capacity() const override { return layers_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return layers_.is_end_of_generation(token); }
  // num_rows of each input must be 0 or 1, or of a tree as many as there are nodes.
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return logits_[idx(row)]; }
  std::optional<double> confidence(int row) const override;
  int pass_size() const override { return pass_size_; }
  int length(int slot) const override { return at(slot).length; }
  // Forgets the block.
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  void expect_drafts(int slot, int count) override { at(slot).num_expected = count; }
  bool has_row(int slot, int length) const override;
  // Nodes need no reading; the row after one is that of its place, finished for its token.
  bool reads_trees() const override { return true; }
  int room_for_nodes(int slot, int level, int /*num_nodes*/) const override {
    return level + 1 < at(slot).num_places ? row_capacity() : 0;
  }
  bool fills_blocks() const override { return true; }

  void catch_up(int slot) override;
  int next_row_size() const override { return 0; }
  const float* next_row(int /*slot*/) const override { return nullptr; }
  void restored(int slot, int length, Token last_token, const float* row) override;

 private:
  struct Slot {
    explicit Slot(int row_size) : kept(row_size) {}
    HiddenRows kept;       // of the target
    int num_read = 0;      // rows that the layers keep, lost rows included
    int length = 0;        // tokens read; those from known_end() on are in the block
    Token anchor = 0;      // the token at known_end()
    int num_expected = 0;  // drafts of the next block; 0: as many as possible
    int num_places = 0;    // of the filled block; 0: none
    int first_row = -1;    // index of the block's first row in the layers; negative: the rows are in `rows`
    std::vector<float> rows;
    std::vector<float> scores;  // of the places, if the layers have confidences
  };
  Slot& at(int slot) { return slots_[idx(slot)]; }
  const Slot& at(int slot) const { return slots_[idx(slot)]; }
  HiddenRows& kept(int slot) override { return at(slot).kept; }
  int num_read(int slot) const override { return at(slot).num_read; }
  int needed_row(int /*slot*/, int /*length*/) const override { return -1; }

  int known_end(int slot) const;
  int place(int slot, int length) const { return length - 1 - known_end(slot); }
  int wanted_places(int slot) const;
  void skip_lost_rows(int slot);
  void read(const std::vector<PassInput>& inputs);
  void fill(const std::vector<int>& slots);
  void save_rows();
  void add_rows_of_nodes(const PassInput& input);
  void add_row(int slot, int length, Token before);

  BlockLayers& layers_;
  TargetOfHead target_;
  std::vector<Slot> slots_;
  int pass_size_ = 0;
  std::vector<const float*> logits_;  // of the last decode()
  // Those logits that the layers finish; a deque, so that none moves.
  std::deque<std::vector<float>> finished_;
  std::vector<double> confidences_;  // of the rows, if the layers have any
  std::vector<float> target_rows_;   // scratch of read()
};

}  // namespace specdec
