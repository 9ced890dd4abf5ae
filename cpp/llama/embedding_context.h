// Embeddings of texts: the rows after a model's last norm, pooled to one row, for decoders and encoders.
#pragma once

#include <memory>
#include <vector>

#include "llama/context.h"

namespace specdec {

enum class Pooling { mean, first, last, rank };

// As the file says ("<architecture>.pooling_type"); mean if it does not say, as generative models do not.
Pooling pooling_of(const Model& model);
const char* name(Pooling pooling);

class EmbeddingContext final : public Context {
 public:
  // For texts of up to `length` tokens. It has a cache of its own. Throws ModelError as Context, and for models that
  // rank.
  EmbeddingContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, int length);

  int width() const { return width_; }
  // [width()], not normalised; at least one token. Throws ModelError, Cancelled.
  std::vector<float> embed(const std::vector<Token>& tokens);

 private:
  const float* row(int token) const;

  const Pooling pooling_;
  const int width_;
};

// The place of a target in the engine, for an encoder: nothing is decoded in it.
class UnreadContext final : public Context {
 public:
  UnreadContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options);
};

}  // namespace specdec
