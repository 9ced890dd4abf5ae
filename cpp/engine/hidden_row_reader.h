// Reads texts with a loaded model and returns its layers' activations for each token: the training data of drafting
// heads.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "llama/head_context.h"
#include "sampling/log_softmax.h"

namespace specdec {

struct LayerRows {
  int width = 0;
  std::vector<float> rows;  // [tokens][layers][width]
  // The most likely next tokens for each token, most likely first, ties by ascending id.
  int num_top = 0;
  std::vector<sampling::TokenLogprob> top;  // [tokens][num_top]
};

// Not thread-safe. Its context is made for the first text, and again for longer ones or other rows.
class HiddenRowReader {
 public:
  // n_ctx: tokens of the longest text.
  HiddenRowReader(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, int n_ctx)
      : model_(std::move(model)), threads_(std::move(threads)), n_ctx_(n_ctx) {}

  // tokens: 1 to n_ctx. layers: their inputs are read; the number of layers stands for the model's last hidden row.
  // num_top: how many next tokens to report for each token; 0: none. cancelled: asked during passes. Throws ModelError,
  // Cancelled.
  LayerRows read(const std::vector<Token>& tokens, const std::vector<int>& layers, int num_top,
                 const std::function<bool()>& cancelled);

 private:
  void prepare(int num_tokens, const std::vector<int>& layers, bool has_top);

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const int n_ctx_;
  std::unique_ptr<HeadTarget> context_;
  std::vector<int> layers_;
};

}  // namespace specdec
