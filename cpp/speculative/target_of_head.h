// Wraps the target when a drafting head reads its hidden rows: keeps the rows that the head has not read yet.
#pragma once

#include <cstddef>
#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"

namespace specdec {

// How many rows may wait for the head: few enough to be read in the same pass as the next drafts and to need little
// memory.
inline constexpr int max_unread = 64;

// Consecutive tokens of a slot with their hidden rows.
class HiddenRows {
 public:
  explicit HiddenRows(int size) : size_(idx(size)) {}

  int begin() const { return first_; }
  int end() const { return first_ + static_cast<int>(tokens_.size()); }
  bool empty() const { return tokens_.empty(); }
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

// A drafting head as a draft model.
class HeadModel : public LanguageModel {
 public:
  // The loop must use the target through this.
  virtual LanguageModel& target() = 0;
  // Whether the head can draft them; the target reads none for others.
  bool drafts_trees() const { return reads_trees(); }
  // Reads the committed tokens whose rows are known. To be called only while the target's cache holds no drafts.
  virtual void catch_up(int slot) = 0;

  // What must be saved with the layers' cache after catch_up(): the row that the next token is read with,
  // next_row_size() numbers. Size 0: no row is needed; null: it is not known.
  virtual int next_row_size() const = 0;
  virtual const float* next_row(int slot) const = 0;
  // To be called when the layers' cache was filled with the first `length` tokens. row: of the last of them, if
  // next_row_size() is not 0.
  virtual void restored(int slot, int length, Token last_token, const float* row) = 0;

 protected:
  friend class TargetOfHead;
  virtual HiddenRows& kept(int slot) = 0;    // of the target
  virtual int num_read(int slot) const = 0;  // tokens read with the target's rows
  // The position whose row the head must read next once it has dropped the tokens from `length` on; negative: none.
  virtual int needed_row(int slot, int length) const = 0;
};

class TargetOfHead final : public LanguageModel {
 public:
  TargetOfHead(HiddenRowModel& target, HeadModel& head, int num_slots)
      : target_(target), head_(head), nodes_(idx(num_slots)) {}

  int vocabulary_size() const override { return target_.vocabulary_size(); }
  int context_length() const override { return target_.context_length(); }
  int batch_size() const override { return target_.batch_size(); }
  int row_capacity() const override { return target_.row_capacity(); }
  bool is_end_of_generation(Token token) const override { return target_.is_end_of_generation(token); }
  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override { return target_.logits(row); }
  int pass_size() const override { return target_.pass_size(); }
  int length(int slot) const override { return target_.length(slot); }
  // May drop one more token, so that the target reads it again and its row is known.
  void truncate(int slot, int length) override;
  int reusable(int slot, int length) const override { return target_.reusable(slot, length); }
  int prompt_piece() const override { return target_.prompt_piece(); }
  void expect_prompt(int slot, int length) override { target_.expect_prompt(slot, length); }
  bool reads_pictures() const override { return target_.reads_pictures(); }
  void checkpoint(int slot, int pass_tokens) override { target_.checkpoint(slot, pass_tokens); }
  bool reads_trees() const override { return head_.drafts_trees() && target_.reads_trees(); }
  void keep_path(int slot, const std::vector<int>& nodes) override;
  void copy(int from, int to) override;

 private:
  // Nodes that the target has read, with their hidden rows.
  struct Nodes {
    std::vector<Token> tokens;
    std::vector<float> rows;  // [tokens.size()][hidden_size()]
    void clear() {
      tokens.clear();
      rows.clear();
    }
  };

  HiddenRowModel& target_;
  HeadModel& head_;
  std::vector<Nodes> nodes_;  // by slot
};

}  // namespace specdec
