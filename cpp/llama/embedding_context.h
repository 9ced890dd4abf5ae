// Embeddings of texts from decoders and encoders: the rows after the model's last norm, pooled to one row.
#pragma once

#include <memory>
#include <vector>

#include "llama/context.h"

namespace specdec {

enum class Pooling { mean, first, last, rank };

// From the file ("<architecture>.pooling_type"); mean if the file does not say, as with generative models.
Pooling pooling_of(const Model& model);
const char* name(Pooling pooling);

class EmbeddingContext final : public Context {
 public:
  // For texts of up to `length` tokens, with a cache of its own. Throws ModelError like Context, and for models that
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

// Takes the place of a target in the engine when the model is an encoder; it decodes nothing.
class UnreadContext final : public Context {
 public:
  UnreadContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options);
};

}  // namespace specdec
