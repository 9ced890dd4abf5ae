// Error feedback: equals plain rounding for independent inputs, has smaller output errors for correlated ones, and does
// not depend on the number of threads.
#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "weights/mxfp6/codec.h"
#include "weights/mxfp6/error_feedback.h"

using namespace specdec::mxfp6;

namespace {

using Floats = std::vector<float>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

Floats gaussian(std::int64_t count, unsigned seed, float scale = 0.02f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Floats x(index(count));
  for (float& value : x) value = scale * normal(generator);
  return x;
}

Floats identity(std::int64_t cols, float diagonal = 1.0f) {
  Floats h(index(cols * cols));
  for (std::int64_t i = 0; i < cols; ++i) h[index(i * cols + i)] = diagonal;
  return h;
}

// Moments of inputs that are mixtures of a few factors and differ in magnitude, like activations. Full symmetric
// matrix.
Floats correlated(std::int64_t cols, unsigned seed) {
  const std::int64_t samples = 4 * cols, factors = cols / 4;
  const Floats mix = gaussian(factors * cols, seed, 1.0f), hidden = gaussian(samples * factors, seed + 1, 1.0f);
  Floats x = gaussian(samples * cols, seed + 2, 0.5f), h(index(cols * cols));
  for (std::int64_t s = 0; s < samples; ++s) {
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t f = 0; f < factors; ++f)
        x[index(s * cols + c)] += hidden[index(s * factors + f)] * mix[index(f * cols + c)];
      if (c % 17 == 3) x[index(s * cols + c)] *= 8.0f;
    }
    for (std::int64_t i = 0; i < cols; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) h[index(i * cols + j)] += x[index(s * cols + i)] * x[index(s * cols + j)];
    }
  }
  return h;
}

struct Quantized {
  std::vector<std::uint8_t> codes, scales;
  Quantized(std::int64_t rows, std::int64_t cols)
      : codes(index(rows * cols)), scales(index(rows * cols / block_size)) {}
  bool operator==(const Quantized& other) const { return codes == other.codes && scales == other.scales; }
};

Quantized nearest(const Floats& w, std::int64_t rows, std::int64_t cols) {
  Quantized q(rows, cols);
  CHECK(quantize(ScaleRule::mse, w.data(), rows, cols, q.codes.data(), q.scales.data()) == -1);
  return q;
}

Quantized feedback(const Floats& h, const Floats& w, std::int64_t rows, std::int64_t cols, FeedbackOptions options = {},
                   int threads = 1, OutputError* error = nullptr) {
  Quantized q(rows, cols);
  const ErrorFeedback quantizer(h.data(), cols, options, threads);
  CHECK(quantizer.quantize(w.data(), rows, q.codes.data(), q.scales.data(), error) == -1);
  return q;
}

// sum over rows of (w - q)^T H (w - q) in double.
double output_error(const Floats& h, const Floats& w, const Quantized& q, std::int64_t rows, std::int64_t cols) {
  Floats decoded(w.size());
  dequantize(q.codes.data(), q.scales.data(), rows, cols, decoded.data());
  double sum = 0.0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto e = [&](std::int64_t c) {
      return static_cast<double>(w[index(r * cols + c)]) - static_cast<double>(decoded[index(r * cols + c)]);
    };
    for (std::int64_t i = 0; i < cols; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) sum += e(i) * static_cast<double>(h[index(i * cols + j)]) * e(j);
    }
  }
  return sum;
}

}  // namespace

TEST(independent_inputs_leave_plain_rounding) {
  constexpr std::int64_t rows = 48, cols = 96;
  const Floats w = gaussian(rows * cols, 1);
  const Quantized q = feedback(identity(cols, 3.0f), w, rows, cols), plain = nearest(w, rows, cols);
  for (std::size_t block = 0; block < q.scales.size(); ++block) {
    std::uint8_t expected[block_size];
    quantize_block(q.scales[block], w.data() + block * block_size, expected);
    CHECK(std::equal(expected, expected + block_size, q.codes.data() + block * block_size));
  }
  const Floats h = identity(cols);
  CHECK(output_error(h, w, q, rows, cols) <= output_error(h, w, plain, rows, cols) * (1 + 1e-4));
}

TEST(correlated_inputs_lose_less_at_every_step) {
  constexpr std::int64_t rows = 32, cols = 128;
  const Floats h = correlated(cols, 2), w = gaussian(rows * cols, 3);
  const double plain = output_error(h, w, nearest(w, rows, cols), rows, cols);
  double before = plain / 2;  // at least that much is gained
  for (const int refinements : {0, 1, 4}) {
    const double error = output_error(h, w, feedback(h, w, rows, cols, {0.001, refinements}), rows, cols);
    CHECK(error < before * (refinements == 0 ? 1.0 : 1.0001));
    before = error;
  }
}

TEST(the_reported_error_is_the_true_one) {
  constexpr std::int64_t rows = 80, cols = 64;
  const Floats h = correlated(cols, 4), w = gaussian(rows * cols, 5);
  OutputError reported;
  const Quantized q = feedback(h, w, rows, cols, {}, 1, &reported);
  const double error = output_error(h, w, q, rows, cols);
  CHECK_NEAR(reported.error / error, 1.0, 1e-3);
  Quantized zero(rows, cols);  // all zeros: its error is the weights' own energy
  std::fill(zero.scales.begin(), zero.scales.end(), std::uint8_t{127});
  CHECK_NEAR(reported.weight / output_error(h, w, zero, rows, cols), 1.0, 1e-4);
}

TEST(only_the_lower_triangle_is_read) {
  constexpr std::int64_t rows = 16, cols = 64;
  const Floats full = correlated(cols, 6), w = gaussian(rows * cols, 7);
  Floats lower = full;
  for (std::int64_t i = 0; i < cols; ++i) {
    for (std::int64_t j = i + 1; j < cols; ++j) lower[index(i * cols + j)] = std::numeric_limits<float>::quiet_NaN();
  }
  CHECK(feedback(lower, w, rows, cols) == feedback(full, w, rows, cols));
}

TEST(threads_and_pieces_do_not_matter) {
  constexpr std::int64_t rows = 80, cols = 160;
  const Floats h = correlated(cols, 8), w = gaussian(rows * cols, 9);
  const Quantized one = feedback(h, w, rows, cols);
  CHECK(one == feedback(h, w, rows, cols, {}, 3));
  const ErrorFeedback quantizer(h.data(), cols, {}, 1);
  Quantized pieces(rows, cols);
  for (std::int64_t row = 0; row < rows; row += 16) {
    quantizer.quantize(w.data() + row * cols, 16, pieces.codes.data() + row * cols,
                       pieces.scales.data() + row * cols / block_size);
  }
  CHECK(one == pieces);
}

TEST(results_are_valid_for_odd_weights_and_inputs) {
  constexpr std::int64_t rows = 16, cols = 64;
  const Floats none(index(cols * cols));  // inputs that were always zero
  Floats one_dead = correlated(cols, 10);
  for (std::int64_t i = 0; i < cols; ++i) one_dead[index(5 * cols + i)] = one_dead[index(i * cols + 5)] = 0.0f;
  for (const Floats& h : {none, one_dead, identity(cols, 1e-30f), identity(cols, 1e30f)}) {
    for (const float scale : {0.0f, 1e-42f, 1e-30f, 1.0f, 1e30f, 3e37f}) {
      const Floats w = gaussian(rows * cols, 11, scale);
      const Quantized q = feedback(h, w, rows, cols);
      for (const std::uint8_t code : q.codes) CHECK(code < num_codes);
      for (const std::uint8_t s : q.scales) CHECK(s >= min_scale && s <= max_scale);
      Floats decoded(w.size());
      dequantize(q.codes.data(), q.scales.data(), rows, cols, decoded.data());
      for (std::size_t i = 0; i < w.size(); ++i) CHECK(std::fabs(decoded[i] - w[i]) <= 1.0f * scale + 1e-38f);
    }
  }
}

TEST(bad_input_is_rejected) {
  constexpr std::int64_t rows = 16, cols = 64;
  Floats w = gaussian(rows * cols, 12);
  const ErrorFeedback quantizer(identity(cols).data(), cols, {}, 1);
  Quantized q(rows, cols);
  w[700] = std::numeric_limits<float>::infinity();
  w[900] = std::numeric_limits<float>::quiet_NaN();
  CHECK(quantizer.quantize(w.data(), rows, q.codes.data(), q.scales.data()) == 700);
  Floats h = identity(cols);
  CHECK_THROWS(ErrorFeedback(h.data(), 48, {}, 1), std::invalid_argument, "multiple of 32");
  CHECK_THROWS(ErrorFeedback(h.data(), cols, {0.0, 1}, 1), std::invalid_argument, "damping");
  for (const std::int64_t place :
       {3 * cols + 1, 5 * cols + 5}) {  // the second is an energy, by which columns are sorted
    h = identity(cols);
    h[index(place)] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS(ErrorFeedback(h.data(), cols, {}, 1), std::invalid_argument, "not finite");
  }
}

TEST_MAIN()
