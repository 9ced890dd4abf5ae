// Products of a draft's output matrix in two passes, compared with the products of its signs and of its rows alone.

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
#include "weights/mxfp6/codec.h"

namespace {

using namespace specdec;

constexpr std::int64_t k = 256, tile = 16, num_best = 256;

using Floats = std::vector<float>;

// A matrix with copies as Q4_0 and of its signs.
class Output {
 public:
  // rows: of MXFP6 a multiple of 16.
  explicit Output(ggml_type type = GGML_TYPE_Q8_0, std::int64_t rows_of_it = tile * 2100 + 5)
      : rows(rows_of_it), graph_(128u << 20), weights_(ggml_new_tensor_2d(graph_.get(), type, k, rows)) {
    std::vector<float> x(static_cast<std::size_t>(k * rows));
    for (float& value : x) value = normal_(random_);
    if (type == GGML_TYPE_MXFP6_E2M3) {
      CHECK(mxfp6::quantize_tiles(mxfp6::ScaleRule::mse, x.data(), rows, k,
                                  static_cast<std::uint8_t*>(weights_->data)) == -1);
    } else {
      ggml_quantize_chunk(type, x.data(), weights_->data, 0, rows, k, nullptr);
    }
    const auto copy = [&](int type_of_copy, std::vector<std::uint8_t>& tiles) {
      tiles.resize(tiles_bytes(weights_, type_of_copy));
      write_tiles(weights_, type_of_copy, 0, num_tiles(weights_), tiles.data());
    };
    copy(GGML_TYPE_Q4_0, four_bits_);
    copy(GGML_TYPE_Q1_0, signs_);
  }

  Floats activations(std::int64_t n) {
    Floats x(static_cast<std::size_t>(k * n));
    for (float& value : x) value = normal_(random_);
    return x;
  }

  enum Copies { none, four_bits, signs, both, signs_beside_weights };
  Floats product(const Floats& x, Copies copies, int threads = 2) {
    BlockTiles tiles{weights_->type, nullptr};
    if (copies == four_bits || copies == both) tiles = {GGML_TYPE_Q4_0, four_bits_.data()};
    if (copies == both || copies == signs_beside_weights) tiles.signs = signs_.data();
    if (copies == signs) tiles = {GGML_TYPE_Q1_0, signs_.data()};
    use_tiles(weights_, copies == none ? nullptr : &tiles);
    GgmlGraph graph(64u << 20);
    ggml_tensor* columns = ggml_new_tensor_2d(graph.get(), GGML_TYPE_F32, k, static_cast<std::int64_t>(x.size()) / k);
    std::memcpy(columns->data, x.data(), x.size() * sizeof(float));
    ggml_tensor* y = ggml_mul_mat(graph.get(), weights_, columns);
    const float* values = graph.compute(y, threads);
    Floats result(values, values + ggml_nelements(y));
    use_tiles(weights_, nullptr);
    return result;
  }

  // The largest rough logit of every tile.
  Floats maxima(const float* logits) const {
    Floats result;
    for (std::int64_t row = 0; row < rows; row += tile) {
      result.push_back(*std::max_element(logits + row, logits + std::min(rows, row + tile)));
    }
    return result;
  }

  // Whether the product with `copies` has the best rows of `best` and the other rows of the signs.
  void check(Copies copies, Copies best) {
    CHECK(finds_best_rows(weights_));
    for (const std::int64_t n : {1, 2, 5}) {
      const Floats x = activations(n);
      const Floats rough = product(x, signs), fine = product(x, best);
      for (const int threads : {1, 2, 3}) {
        const Floats y = product(x, copies, threads);
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

  const std::int64_t rows;

 private:
  GgmlGraph graph_;
  ggml_tensor* weights_;
  std::vector<std::uint8_t> four_bits_, signs_;
  std::mt19937 random_{11};
  std::normal_distribution<float> normal_;
};

}  // namespace

TEST(the_best_rows_are_multiplied_again_and_the_others_stay_rough) { Output().check(Output::both, Output::four_bits); }

TEST(the_best_rows_of_weights_without_tiles_are_multiplied_as_without_signs) {
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q6_K, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    Output(type).check(Output::signs_beside_weights, Output::none);
  }
  Output(GGML_TYPE_MXFP6_E2M3, tile * 2100).check(Output::signs_beside_weights, Output::none);
}

// Rows like a trained model's: one of them fits the activations better than all others, by however little of its
// length.
TEST(the_likeliest_token_is_found) {
  Output output;
  constexpr std::int64_t n = 40;
  const std::int64_t rows = output.rows;
  const Floats x = output.activations(n), fine = output.product(x, Output::four_bits),
               y = output.product(x, Output::both);
  int same = 0;
  for (std::int64_t c = 0; c < n; ++c) {
    const auto best = [&](const Floats& logits) {
      return std::max_element(logits.begin() + c * rows, logits.begin() + (c + 1) * rows);
    };
    same += best(y) - y.begin() == best(fine) - fine.begin() ? 1 : 0;
  }
  CHECK(same >= n - 2);  // of random rows, whose largest logits lie closer together than a model's
}

TEST(a_column_does_not_depend_on_the_others) {
  Output output;
  const std::int64_t rows = output.rows;
  const Floats x = output.activations(7), together = output.product(x, Output::both);
  for (std::int64_t c = 0; c < 7; ++c) {
    const Floats alone = output.product(Floats(x.begin() + c * k, x.begin() + (c + 1) * k), Output::both);
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + c * rows));
  }
}

TEST(a_bad_activation_spoils_its_column_and_no_other) {
  Output output;
  const std::int64_t rows = output.rows;
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
  CHECK(!finds_best_rows(ggml_new_tensor_2d(graph.get(), GGML_TYPE_I8, 256, 40000)));   // no weights
}

TEST_MAIN()
