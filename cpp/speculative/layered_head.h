// Drafting heads of several layers (multi-token prediction of MiMo V2, Step 3.5): each layer drafts its own place, and
// the last one also all later places.
//
// A layer reads every committed token with the target's row of the token before it, as if it drafted alone, and keeps
// the result. After the last committed token, whose row is not known, it reads the drafts, each with the row that the
// layer of the previous place computed for the previous token. So the first layer makes the first draft; the second
// layer reads this draft with the first layer's row; and so on. The pass that computes the row of a draft also reads
// these tokens: one pass per draft.
//
// Trees are read likewise, a pass for each level: a layer reads the whole tree down to the level whose rows it makes,
// each node with its parent's row.
#pragma once

#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"
#include "speculative/target_of_head.h"

namespace specdec {

class LayeredHead final : public HeadModel {
 public:
  // layers: at least one, whose rows have the size of the target's. All have num_slots slots.
  LayeredHead(HiddenRowModel& target, std::vector<HeadLayers*> layers, int num_slots);

  LanguageModel& target() override { return target_; }

  int vocabulary_size() const override { return first().vocabulary_size(); }
  int context_length() const override { return first().context_length(); }
  int batch_size() const override { return first().batch_size(); }
  int row_capacity() const override { return first().row_capacity(); }
  bool is_end_of_generation(Token token) const override { return first().is_end_of_generation(token); }
  // num_rows of each input must be 0 or 1, or of a tree as many as there are nodes, which are one level's.
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return logits_[idx(row)]; }
  int pass_size() const override { return pass_size_; }
  int length(int slot) const override { return static_cast<int>(at(slot).tokens.size()); }
  // Drops all drafts.
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  bool reads_trees() const override;
  int room_for_nodes(int slot, int level, int num_nodes) const override;

  void catch_up(int slot) override;
  int next_row_size() const override { return static_cast<int>(row_size_); }
  const float* next_row(int slot) const override { return at(slot).kept.row(num_read(slot) - 1); }
  void restored(int slot, int length, Token last_token, const float* row) override;

 private:
  struct Tree {
    std::vector<Token> tokens;  // of the nodes
    std::vector<float> rows;    // of the nodes, each computed by the layer of the place after it
    std::vector<int> num_read;  // nodes, by layer
  };
  struct Slot {
    Slot(int row_size, std::size_t num_layers) : kept(row_size), num_read(num_layers, 0) {}
    HiddenRows kept;            // of the target
    std::vector<int> num_read;  // by layer: tokens read with the target's rows
    std::vector<Token> tokens;  // passed to decode()
    std::vector<float> own;     // rows of the tokens from own_begin on, each computed by the layer of its place
    int own_begin = 0;
    Tree tree;
  };
  struct Step {  // a layer reads the slot's tokens before `end`
    int slot, end;
  };
  Slot& at(int slot) { return slots_[idx(slot)]; }
  const Slot& at(int slot) const { return slots_[idx(slot)]; }
  HiddenRows& kept(int slot) override { return at(slot).kept; }
  int num_read(int slot) const override;  // by all layers
  int needed_row(int slot, int length) const override;

  const HeadLayers& first() const { return *layers_.front(); }
  int anchor(int slot) const { return target_model_.length(slot); }  // the first token whose row is not known
  int num_own(const Slot& s) const { return static_cast<int>(s.own.size() / row_size_); }
  int layer_of(int place) const { return std::min(place, static_cast<int>(layers_.size()) - 1); }
  Token token(const Slot& s, int position) const;
  void forget_drafts(int slot);
  void read_known(int slot, int end);
  void read(int layer, int slot, int end);
  void make_rows(const std::vector<PassInput>& inputs);
  void collect_unread(int layer, const PassInput& input, std::vector<Token>& tokens);
  void read_level(const std::vector<PassInput>& inputs);
  void pass(int layer, const std::vector<Step>& steps, int num_rows);

  std::vector<HeadLayers*> layers_;
  TargetOfHead target_;
  const LanguageModel& target_model_;
  std::size_t row_size_;
  std::vector<Slot> slots_;
  int pass_size_ = 0;
  std::vector<const float*> logits_;  // of the last decode()
  std::vector<float> rows_;           // scratch of pass()
  std::vector<Token> read_tokens_;
  std::vector<std::vector<Token>> level_tokens_;  // by input; scratch of read_level()
  std::vector<PassInput> inputs_;
};

}  // namespace specdec
