#include "engine/embedder.h"

#include <algorithm>
#include <cmath>

namespace specdec {

void normalise(std::vector<float>& row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * static_cast<double>(value);
  if (sum <= 0) return;
  const double length = std::sqrt(sum);
  for (float& value : row) value = static_cast<float>(static_cast<double>(value) / length);
}

std::vector<float> Embedder::embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled) {
  const int needed = static_cast<int>(tokens.size());
  if (!context_ || context_->context_length() < needed) {
    constexpr int shortest = 512;
    const int twice = context_ ? 2 * context_->context_length() : shortest;
    context_.reset();  // free the old context first: both may not fit into memory
    context_ = std::make_unique<EmbeddingContext>(model_, threads_, std::min(n_ctx_, std::max(needed, twice)));
  }
  context_->set_cancel_check(cancelled);
  std::vector<float> row = context_->embed(tokens);
  normalise(row);
  return row;
}

}  // namespace specdec
