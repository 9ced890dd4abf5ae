#include "llama/embedding_context.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "llama.h"

namespace specdec {
namespace {

std::string metadata(const Model& model, const std::string& key) {
  char value[64];
  const std::string name = model.architecture() + "." + key;
  return llama_model_meta_val_str(model.get(), name.c_str(), value, sizeof value) < 0 ? "" : value;
}

// llama.cpp also computes logits for every token with a row; they take at most 64 MiB here. Without causal attention
// all tokens of a text must be in one pass.
int pass_tokens(const Model& model, int length) {
  constexpr int bytes = 64 << 20;
  if (model.is_encoder() || metadata(model, "attention.causal") == "false") return length;
  const int tokens = bytes / (static_cast<int>(sizeof(float)) * std::max(1, model.vocabulary().size()));
  return std::min(length, std::clamp(tokens, 16, 512));
}

Context::Options context_options(const Model& model, int length) {
  Context::Options options;
  options.context_length = length;
  options.batch_size = options.max_rows = pass_tokens(model, length);
  return options;
}

Context::Setup context_setup(const Model& model, int length) {
  const Context::Options options = context_options(model, length);
  Context::Setup setup{model.cache_bytes(num_cells(options), options.kv_type), !model.can_roll_back(),
                       options.max_rows};
  setup.makes_embeddings = true;
  return setup;
}

}  // namespace

Pooling pooling_of(const Model& model) {
  const std::string given = metadata(model, "pooling_type");
  if (given == "2") return Pooling::first;
  if (given == "3") return Pooling::last;
  return given == "4" ? Pooling::rank : Pooling::mean;
}

const char* name(Pooling pooling) {
  switch (pooling) {
    case Pooling::first:
      return "first";
    case Pooling::last:
      return "last";
    case Pooling::rank:
      return "rank";
    case Pooling::mean:
      break;
  }
  return "mean";
}

UnreadContext::UnreadContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
                             const Options& options)
    : Context(model, std::move(threads), options, {0, false, options.max_rows, false, true}) {}

EmbeddingContext::EmbeddingContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
                                   int length)
    : Context(model, std::move(threads), context_options(*model, length), context_setup(*model, length)),
      pooling_(pooling_of(*model)),
      width_(llama_model_n_embd_out(model->get())) {
  if (pooling_ == Pooling::rank)
    throw ModelError(model->path() + ": this is a reranking model, which makes no embeddings; use an embedding model");
}

const float* EmbeddingContext::row(int token) const { return llama_get_embeddings_ith(get(), token); }

std::vector<float> EmbeddingContext::embed(const std::vector<Token>& tokens) {
  const int num_tokens = static_cast<int>(tokens.size());
  std::vector<double> sum(idx(width_), 0.0);
  truncate(0, 0);
  for (int begin = 0; begin < num_tokens; begin += batch_size()) {
    const int count = std::min(batch_size(), num_tokens - begin), end = begin + count;
    const bool has_pooled = pooling_ == Pooling::mean || (pooling_ == Pooling::first ? begin == 0 : end == num_tokens);
    llama_set_embeddings(get(), has_pooled);
    decode({{0, tokens.data() + begin, count, has_pooled ? count : 0}});
    if (!has_pooled) continue;
    const int first = pooling_ == Pooling::last ? count - 1 : 0, last = pooling_ == Pooling::first ? 0 : count - 1;
    for (int i = first; i <= last; ++i) {
      const float* const values = row(i);
      for (int column = 0; column < width_; ++column) sum[idx(column)] += static_cast<double>(values[column]);
    }
  }
  const double divisor = pooling_ == Pooling::mean ? num_tokens : 1;
  std::vector<float> pooled(idx(width_));
  for (int column = 0; column < width_; ++column) pooled[idx(column)] = static_cast<float>(sum[idx(column)] / divisor);
  return pooled;
}

}  // namespace specdec
