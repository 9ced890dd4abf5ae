// The two models of a drafting head: a target that gives hidden rows, and the layers that read them.
#pragma once

#include <vector>

#include "speculative/language_model.h"

namespace specdec {

// A model that gives hidden rows: what its layers made of each token of a pass.
class HiddenRowModel : public virtual LanguageModel {
 public:
  virtual int hidden_size() const = 0;
  // The row of a token of the last pass, counted over the inputs in order; valid until the next pass. [hidden_size()]
  virtual const float* hidden_row(int token) const = 0;
};

// Layers that read a hidden row with each token, and give rows of the same size.
class HeadLayers : public HiddenRowModel {
 public:
  // As decode(), with a row for every token of the inputs, in order; null: zeros. [tokens][hidden_size()]
  virtual void decode_with(const std::vector<PassInput>& inputs, const float* rows) = 0;
  void decode(const std::vector<PassInput>& inputs) override { decode_with(inputs, nullptr); }

  // The size of the target's rows, and `count` of these, at most batch_size(), as the layers read them:
  // [count][hidden_size()], valid until the next call. Throws as decode().
  virtual int target_row_size() const { return hidden_size(); }
  virtual const float* fuse(const float* target_rows, int /*count*/) { return target_rows; }
};

}  // namespace specdec
