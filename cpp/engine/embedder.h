// Computes embeddings of texts with a loaded model.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "llama/embedding_context.h"

namespace specdec {

void normalise(std::vector<float>& row);  // to norm 1, unless all numbers are 0

// Not thread-safe. Its context is made for the first text, and again for longer ones.
class Embedder {
 public:
  // n_ctx: tokens of the longest text.
  Embedder(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, int n_ctx)
      : model_(std::move(model)), threads_(std::move(threads)), n_ctx_(n_ctx) {}

  // tokens: 1 to n_ctx. The result has length (norm) 1. cancelled: asked during passes. Throws ModelError, Cancelled.
  std::vector<float> embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled);

 private:
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const int n_ctx_;
  std::unique_ptr<EmbeddingContext> context_;
};

}  // namespace specdec
