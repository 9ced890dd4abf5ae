// Completes the logits of llama.cpp's graph of a block drafter: applies the target's scale and soft cap, and DSpark's
// bias and confidence, which depend on the previous token. llama.cpp would chain these through the likeliest tokens;
// here they must belong to the token that was drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "base/token.h"

struct ggml_tensor;
struct llama_model;

namespace specdec {

class BlockRows {
 public:
  // Removes the bias from the model, so that its graph adds none. Throws std::invalid_argument with a sentence if the
  // matrices cannot be read here.
  explicit BlockRows(llama_model* model);

  bool changes() const { return w1_ != nullptr || scale_ != 0.0f || cap_ > 0.0f; }
  // logits [vocabulary]. Adds the bias only to the rows with the largest logits, in tiles of 16 (graph/best_rows.h):
  // other tokens are unlikely with any bias.
  void finish(Token before, float* logits) const;

  // sigmoid(matrix . [hidden row of the place; w1's row of the token before] + bias), in two steps.
  bool has_confidences() const { return !confidence_.empty(); }
  float score(const float* hidden_row) const;
  double confidence(float score, Token before) const;

 private:
  void add_bias(Token before, float* logits) const;

  const ggml_tensor *w1_, *w2_;  // [tokens][rank]: for the previous token, and for the next one; or null
  float bias_scale_ = 1.0f;
  std::vector<std::int64_t> ids_;  // token ids of the rows of w2_; empty: the rows' numbers
  std::vector<float> confidence_;  // [hidden size + rank], or empty
  float confidence_bias_ = 0.0f;
  std::int64_t vocabulary_size_;
  float scale_, cap_;  // of logits; 0: none
};

}  // namespace specdec
