// What llama.cpp's graph of a block drafter leaves to whoever reads its logits: the target's scale and soft cap, and
// the bias and the confidence that DSpark has by the token before. llama.cpp chains these through the likeliest tokens;
// here they must be those of the token that was drawn.
#pragma once

#include <cstdint>
#include <vector>

#include "base/token.h"

struct ggml_tensor;
struct llama_model;

namespace specdec {

class BlockRows {
 public:
  // Takes the bias out of the model, so that its graph adds none. Throws std::invalid_argument with a sentence if
  // the matrices cannot be read here.
  explicit BlockRows(llama_model* model);

  bool changes() const { return w1_ != nullptr || scale_ != 0.0f || cap_ > 0.0f; }
  // logits [vocabulary]. The bias is that of the rows with the largest logits, in tiles of 16 (graph/best_rows.h):
  // other tokens are unlikely with any.
  void finish(Token before, float* logits) const;

  // sigmoid(matrix . [hidden row of the place; w1's row of the token before] + bias), in two steps.
  bool has_confidences() const { return !confidence_.empty(); }
  float score(const float* hidden_row) const;
  double confidence(float score, Token before) const;

 private:
  void add_bias(Token before, float* logits) const;

  const ggml_tensor *w1_, *w2_;  // [tokens][rank]: of the token before, and of the next; or null
  float bias_scale_ = 1.0f;
  std::vector<std::int64_t> ids_;  // of the rows of w2_; empty: their numbers
  std::vector<float> confidence_;  // [hidden size + rank], or empty
  float confidence_bias_ = 0.0f;
  std::int64_t vocabulary_size_;
  float scale_, cap_;  // of logits; 0: none
};

}  // namespace specdec
