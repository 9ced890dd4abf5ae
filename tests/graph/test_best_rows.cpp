// Products of a draft's output matrix in two passes, beside the products of both copies alone.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "ggml_graph.h"
#include "graph/blocks.h"

namespace {

using namespace specdec;

constexpr std::int64_t k = 256, rows = 16 * 2100 + 5, tile = 16, num_best = 256;

using Floats = std::vector<float>;

// A matrix as Q8_0 with copies as Q4_0 and of its signs.
class Output {
 public:
  Output() : graph_(128u << 20), weights_(ggml_new_tensor_2d(graph_.get(), GGML_TYPE_Q8_0, k, rows)) {
    std::vector<float> x(static_cast<std::size_t>(k * rows));
    for (float& value : x) value = normal_(random_);
    ggml_quantize_chunk(GGML_TYPE_Q8_0, x.data(), weights_->data, 0, rows, k, nullptr);
    const auto copy = [&](int type, std::vector<std::uint8_t>& tiles) {
      tiles.resize(tiles_bytes(weights_, type));
      write_tiles(weights_, type, 0, num_tiles(weights_), tiles.data());
    };
    copy(GGML_TYPE_Q4_0, four_bits_);
    copy(GGML_TYPE_Q1_0, signs_);
  }

  Floats activations(std::int64_t n) {
    Floats x(static_cast<std::size_t>(k * n));
    for (float& value : x) value = normal_(random_);
    return x;
  }

  enum Copies { four_bits, signs, both };
  Floats product(const Floats& x, Copies copies, int threads = 2) {
    const BlockTiles tiles = copies == signs ? BlockTiles{GGML_TYPE_Q1_0, signs_.data()}
                                             : BlockTiles{GGML_TYPE_Q4_0, four_bits_.data(), copies == both ? signs_.data() : nullptr};
    use_tiles(weights_, &tiles);
    GgmlGraph graph(64u << 20);
    ggml_tensor* columns = ggml_new_tensor_2d(graph.get(), GGML_TYPE_F32, k, static_cast<std::int64_t>(x.size()) / k);
    std::memcpy(columns->data, x.data(), x.size() * sizeof(float));
    ggml_tensor* y = ggml_mul_mat(graph.get(), weights_, columns);
    const float* values = graph.compute(y, threads);
    Floats result(values, values + ggml_nelements(y));
    use_tiles(weights_, nullptr);
    return result;
  }

  ggml_tensor* weights() const { return weights_; }

 private:
  GgmlGraph graph_;
  ggml_tensor* weights_;
  std::vector<std::uint8_t> four_bits_, signs_;
  std::mt19937 random_{11};
  std::normal_distribution<float> normal_;
};

// The largest rough logit of every tile.
Floats maxima(const float* logits) {
  Floats result;
  for (std::int64_t row = 0; row < rows; row += tile)
    result.push_back(*std::max_element(logits + row, logits + std::min(rows, row + tile)));
  return result;
}

}  // namespace

TEST(the_best_rows_are_multiplied_again_and_the_others_stay_rough) {
  Output output;
  CHECK(finds_best_rows(output.weights()));
  for (const std::int64_t n : {1, 2, 5}) {
    const Floats x = output.activations(n);
    const Floats rough = output.product(x, Output::signs), fine = output.product(x, Output::four_bits);
    for (const int threads : {1, 2, 3}) {
      const Floats y = output.product(x, Output::both, threads);
      for (std::int64_t c = 0; c < n; ++c) {
        const Floats largest = maxima(&rough[static_cast<std::size_t>(c * rows)]);
        Floats sorted = largest;
        std::sort(sorted.begin(), sorted.end(), std::greater<float>());
        for (std::int64_t row = 0; row < rows; ++row) {
          const bool is_best = largest[static_cast<std::size_t>(row / tile)] >= sorted[num_best - 1];
          const auto at = static_cast<std::size_t>(c * rows + row);
          CHECK(y[at] == (is_best ? fine : rough)[at]);
        }
      }
    }
  }
}

// Rows like a trained model's: one of them fits the activations better than all others, by however little of its length.
TEST(the_likeliest_token_is_found) {
  Output output;
  constexpr std::int64_t n = 40;
  const Floats x = output.activations(n), fine = output.product(x, Output::four_bits), y = output.product(x, Output::both);
  int same = 0;
  for (std::int64_t c = 0; c < n; ++c) {
    const auto best = [&](const Floats& logits) { return std::max_element(logits.begin() + c * rows, logits.begin() + (c + 1) * rows); };
    same += best(y) - y.begin() == best(fine) - fine.begin() ? 1 : 0;
  }
  CHECK(same >= n - 2);  // of random rows, whose largest logits lie closer together than a model's
}

TEST(a_column_does_not_depend_on_the_others) {
  Output output;
  const Floats x = output.activations(7), together = output.product(x, Output::both);
  for (std::int64_t c = 0; c < 7; ++c) {
    const Floats alone = output.product(Floats(x.begin() + c * k, x.begin() + (c + 1) * k), Output::both);
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + c * rows));
  }
}

TEST(a_bad_activation_spoils_its_column_and_no_other) {
  Output output;
  Floats x = output.activations(3);
  const Floats clean = output.product(x, Output::both);
  x[k + 3] = std::numeric_limits<float>::quiet_NaN();
  const Floats y = output.product(x, Output::both);
  for (std::int64_t i = 0; i < 3 * rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    CHECK(i / rows == 1 ? std::isnan(y[at]) : y[at] == clean[at]);
  }
}

TEST(small_matrices_are_read_once) {
  GgmlGraph graph(32u << 20);
  CHECK(!finds_best_rows(ggml_new_tensor_2d(graph.get(), GGML_TYPE_Q8_0, 256, 2000)));
  CHECK(!finds_best_rows(ggml_new_tensor_2d(graph.get(), GGML_TYPE_Q8_0, 96, 40000)));  // no blocks of 128
}

TEST_MAIN()
