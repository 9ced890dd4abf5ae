#include "engine/hidden_row_reader.h"

#include <algorithm>
#include <cstddef>

#include "base/index.h"

namespace specdec {
namespace {

constexpr int most_tokens = 512;  // of a pass

// The tokens of a pass if logits are needed: these take at most 64 MiB.
int pass_tokens(const Model& model) {
  constexpr int bytes = 64 << 20;
  const int tokens = bytes / (static_cast<int>(sizeof(float)) * std::max(1, model.vocabulary().size()));
  return std::clamp(tokens, 16, most_tokens);
}

}  // namespace

void HiddenRowReader::prepare(int num_tokens, const std::vector<int>& layers, bool has_top) {
  const bool fits = context_ && context_->context_length() >= num_tokens && layers_ == layers &&
                    (!has_top || context_->row_capacity() > 1);
  if (fits) return;
  constexpr int shortest = 512;
  Context::Options options;
  options.context_length = std::min(n_ctx_, std::max(num_tokens, context_ ? context_->context_length() : shortest));
  options.max_rows = has_top ? pass_tokens(*model_) : 1;
  options.batch_size = std::min(options.context_length, has_top ? options.max_rows : most_tokens);
  context_.reset();  // free the old context first: both may not fit into memory
  context_ = std::make_unique<HeadTarget>(model_, threads_, options, HeadTarget::Rows{layers, true});
  layers_ = layers;
}

LayerRows HiddenRowReader::read(const std::vector<Token>& tokens, const std::vector<int>& layers, int num_top,
                                const std::function<bool()>& cancelled) {
  const int num_tokens = static_cast<int>(tokens.size());
  prepare(num_tokens, layers, num_top > 0);
  HeadTarget& context = *context_;
  context.set_cancel_check(cancelled);
  context.truncate(0, 0);
  LayerRows result;
  result.width = context.hidden_size() / static_cast<int>(layers.size());
  result.num_top = std::min(num_top, context.vocabulary_size());
  result.rows.reserve(tokens.size() * idx(context.hidden_size()));
  result.top.reserve(tokens.size() * idx(result.num_top));
  for (int begin = 0; begin < num_tokens; begin += context.batch_size()) {
    const int count = std::min(context.batch_size(), num_tokens - begin);
    context.decode({{0, tokens.data() + begin, count, num_top > 0 ? count : 0}});
    for (int i = 0; i < count; ++i) {
      const float* const row = context.hidden_row(i);
      result.rows.insert(result.rows.end(), row, row + context.hidden_size());
      if (num_top == 0) continue;
      sampling::append_most_likely(sampling::log_softmax(context.logits(i), context.vocabulary_size()), result.num_top,
                                   result.top);
    }
  }
  return result;
}

}  // namespace specdec
