// Interfaces of the two models of a drafting head: a target that provides hidden rows, and layers that read them,
// either token by token or to fill a block of places at once. They are interfaces, so that the loop knows no llama.cpp,
// and toy heads have an exact law.
#pragma once

#include <vector>

#include "speculative/language_model.h"

namespace specdec {

// A model that provides hidden rows: its layers' activations for each token of a pass.
class HiddenRowModel : public virtual LanguageModel {
 public:
  virtual int hidden_size() const = 0;
  // The row of a token of the last pass, counted over the inputs in order; valid until the next pass. [hidden_size()]
  virtual const float* hidden_row(int token) const = 0;
};

// Layers that read a hidden row with each token and provide rows of the same size.
class HeadLayers : public HiddenRowModel {
 public:
  // Like decode(), with a row for every token of the inputs, in order; null: zeros. [tokens][hidden_size()]
  virtual void decode_with(const std::vector<PassInput>& inputs, const float* rows) = 0;
  void decode(const std::vector<PassInput>& inputs) override { decode_with(inputs, nullptr); }

  // The size of the target's rows; and `count` of these, at most batch_size(), converted to what the layers read:
  // [count][hidden_size()], valid until the next call. Throws what decode() throws.
  virtual int target_row_size() const { return hidden_size(); }
  virtual const float* fuse(const float* target_rows, int /*count*/) { return target_rows; }
};

// Layers that keep what they read of the target's hidden rows, and fill a block of places after them in one pass. The
// length() of a slot is the number of rows read.
class BlockLayers : public virtual LanguageModel {
 public:
  struct Rows {
    int slot, count;
  };
  struct Block {
    int slot;
    Token anchor;  // the last committed token, whose row is not known yet
  };

  virtual int target_row_size() const = 0;
  virtual int most_places() const = 0;  // of a block
  // One pass over rows of the target, at most batch_size(), which are appended to what the slots keep. Slots ascend.
  // Throws what decode() throws.
  virtual void read(const std::vector<Rows>& inputs, const float* rows) = 0;
  // One pass that fills num_places places after each anchor; the slots keep nothing of it. Afterwards row b *
  // num_places + i belongs to place i of block b. Slots ascend; at most blocks_per_pass(). Throws what decode() throws.
  virtual void fill(const std::vector<Block>& blocks, int num_places) = 0;
  virtual int blocks_per_pass(int num_places) const = 0;
  // Empties a slot; the next row that it reads belongs to the token at `position`.
  virtual void empty(int slot, int position) = 0;

  // Whether the logits of a place change once the token before it is known.
  virtual bool finishes_rows() const { return false; }
  virtual void finish_row(Token /*before*/, float* /*logits*/) const {}

  // The layers' own estimate of the probability that a draft of a place is accepted, once the token before it is known.
  // score(): what the pass itself says about a place, indexed by row as logits() is.
  virtual bool has_confidences() const { return false; }
  virtual float score(int /*row*/) const { return 0.0f; }
  virtual double confidence_of(float /*score*/, Token /*before*/) const { return 0.0; }
};

}  // namespace specdec
