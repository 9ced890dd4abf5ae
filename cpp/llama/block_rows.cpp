#include "llama/block_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "base/index.h"
#include "graph/blocks.h"
#include "graph/row_products.h"
#include "llama-model.h"

namespace specdec {
namespace {

constexpr std::int64_t tile_rows = 16, most_tiles = 256;

using Tile = std::array<float, idx(tile_rows)>;

// By halves, which compilers vectorize.
float largest_of(Tile& values) {
  for (std::size_t half = values.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) values[i] = std::max(values[i], values[i + half]);
  }
  return values[0];
}

bool is_in_memory(const ggml_tensor* t) { return t->buffer != nullptr && ggml_backend_buffer_is_host(t->buffer); }

[[noreturn]] void reject(const ggml_tensor* t) {
  throw std::invalid_argument(std::string("tensor \"") + t->name +
                              "\" cannot be read here; leave the draft on the CPU");
}

float dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t lanes = 8;
  std::array<float, lanes> sums{};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[idx(lane)] += a[i + lane] * b[i + lane];
  }
  float sum = 0.0f;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

}  // namespace

BlockRows::BlockRows(llama_model* model)
    : w1_(model->dspark_markov_w1),
      w2_(model->dspark_markov_w2),
      vocabulary_size_(model->vocab.n_tokens()),
      scale_(model->hparams.f_logit_scale),
      cap_(model->hparams.f_final_logit_softcapping) {
  if (w1_ == nullptr) return;
  for (const ggml_tensor* t : {w1_, w2_}) {
    if (!is_in_memory(t) || !can_decode_rows(t)) reject(t);
  }
  ggml_tensor* const confidence = model->dspark_conf_proj;
  for (const ggml_tensor* t : {model->dspark_markov_w2_s, model->d2t, confidence, model->dspark_conf_proj_b}) {
    if (t != nullptr && !is_in_memory(t)) reject(t);
  }
  if (model->dspark_markov_w2_s != nullptr) bias_scale_ = *static_cast<const float*>(model->dspark_markov_w2_s->data);
  if (model->d2t != nullptr) {
    const auto* const ids = static_cast<const std::int64_t*>(model->d2t->data);
    ids_.assign(ids, ids + model->d2t->ne[0]);
  }
  if (confidence != nullptr) {
    if (!can_decode_rows(confidence)) reject(confidence);
    confidence_.resize(idx(confidence->ne[0]));
    decode_rows(confidence, 0, 1, confidence_.data());
    if (model->dspark_conf_proj_b != nullptr) decode_rows(model->dspark_conf_proj_b, 0, 1, &confidence_bias_);
  }
  model->dspark_markov_w1 = model->dspark_markov_w2 = nullptr;
}

float BlockRows::score(const float* hidden_row) const {
  const std::int64_t size = static_cast<std::int64_t>(confidence_.size()) - w1_->ne[0];
  return dot(confidence_.data(), hidden_row, size) + confidence_bias_;
}

double BlockRows::confidence(float score, Token before) const {
  const std::int64_t rank = w1_->ne[0];
  double log_odds = score;
  if (before < w1_->ne[1]) {
    std::vector<float> of_before(idx(rank));
    decode_rows(w1_, before, 1, of_before.data());
    log_odds += dot(confidence_.data() + (confidence_.size() - idx(rank)), of_before.data(), rank);
  }
  return std::isnan(log_odds) ? 0.5 : 1.0 / (1.0 + std::exp(-log_odds));
}

void BlockRows::finish(Token before, float* logits) const {
  if (w1_ != nullptr && before < w1_->ne[1]) add_bias(before, logits);
  if (scale_ != 0.0f) std::transform(logits, logits + vocabulary_size_, logits, [&](float x) { return x * scale_; });
  if (!(cap_ > 0.0f)) return;
  const float least = cap_ / 8;  // below this, the cap changes logits by less than half a percent
  for (std::int64_t i = 0; i < vocabulary_size_; ++i) {
    if (logits[i] > least) logits[i] = cap_ * std::tanh(logits[i] / cap_);
  }
}

void BlockRows::add_bias(Token before, float* logits) const {
  const std::int64_t rank = w1_->ne[0], rows = w2_->ne[1], tiles = (rows + tile_rows - 1) / tile_rows;
  const auto id = [&](std::int64_t row) { return ids_.empty() ? row : ids_[idx(row)]; };
  float least = -std::numeric_limits<float>::infinity();
  std::vector<float> maxima;
  if (tiles > most_tiles) {
    maxima.resize(idx(tiles));
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t first = tile * tile_rows, count = std::min(tile_rows, rows - first);
      Tile values;
      values.fill(least);
      if (ids_.empty()) std::copy_n(logits + first, count, values.begin());
      else
        for (std::int64_t i = 0; i < count; ++i) values[idx(i)] = logits[ids_[idx(first + i)]];
      maxima[idx(tile)] = largest_of(values);
    }
    std::vector<float> sorted = maxima;
    std::nth_element(sorted.begin(), sorted.begin() + (most_tiles - 1), sorted.end(), std::greater<float>());
    least = sorted[idx(most_tiles - 1)];
  }
  std::vector<float> of_before(idx(rank));
  decode_rows(w1_, before, 1, of_before.data());
  for (float& x : of_before) x *= bias_scale_;
  RowProducts products(w2_, of_before.data());
  Tile bias;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    if (!maxima.empty() && maxima[idx(tile)] < least) continue;
    const std::int64_t first = tile * tile_rows, count = std::min(tile_rows, rows - first);
    products.multiply(first, count, bias.data());
    for (std::int64_t i = 0; i < count; ++i) logits[id(first + i)] += bias[idx(i)];
  }
}

}  // namespace specdec
