// Every instruction set's kernel against the definition in weights/floats/matmul.h, bit for bit, and against float64.
// Usage: test_kernels NAME; skipped if this CPU lacks it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernel_test.h"
#include "weights/floats/kernels.h"

using namespace specdec::floats;

using check::same;

namespace {

const Kernels& tested() { return check::tested(all_kernels()); }

using Floats = std::vector<float>;
constexpr Type types[] = {Type::f16, Type::bf16, Type::f32};
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::size_t bytes_of(Type type) { return type == Type::f32 ? 4 : 2; }
std::size_t size(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

// The value of a weight's bits, from the definition of its format.
float value_of(Type type, std::uint32_t bits) {
  if (type == Type::f16) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 31  ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
  }
  if (type == Type::bf16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A matrix as in a file; row_bytes is larger than a row, and the start has only the alignment of its type.
struct Weights {
  Weights(Type type_, std::int64_t rows_, std::int64_t k_)
      : type(type_), rows(rows_), k(k_), memory(size(rows_, k_ + gap) * bytes_of(type_)) {}

  static constexpr std::int64_t gap = 3;
  Matrix matrix() const { return {type, memory.data(), (k + gap) * static_cast<std::int64_t>(bytes_of(type)), k}; }
  std::size_t place(std::int64_t row, std::int64_t i) const {
    return (size(row, k + gap) + static_cast<std::size_t>(i)) * bytes_of(type);
  }
  void set(std::int64_t row, std::int64_t i, std::uint32_t bits) {
    std::memcpy(&memory[place(row, i)], &bits, bytes_of(type));
  }
  float at(std::int64_t row, std::int64_t i) const {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &memory[place(row, i)], bytes_of(type));
    return value_of(type, bits);
  }

  Type type;
  std::int64_t rows, k;
  std::vector<unsigned char> memory;
};

// Signs and fractions of any kind, exponents around 1.
Weights random_weights(Type type, std::int64_t rows, std::int64_t k, unsigned seed) {
  std::mt19937 random(seed);
  Weights w(type, rows, k);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      const auto number = [&] { return static_cast<std::uint32_t>(random()); };
      const std::uint32_t sign = number() & 1, exponent = number() % 8, fraction = number();
      const std::uint32_t bits = type == Type::f16    ? sign << 15 | (10 + exponent) << 10 | (fraction & 1023)
                                 : type == Type::bf16 ? sign << 15 | (122 + exponent) << 7 | (fraction & 127)
                                                      : sign << 31 | (122 + exponent) << 23 | (fraction & 0x7FFFFF);
      w.set(r, i, bits);
    }
  }
  return w;
}

Floats random_activations(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(static_cast<std::size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

Floats packed(const Kernels& kernels, const Floats& x, std::int64_t n, std::int64_t k) {
  Floats panel(panel_floats(n, k), not_a_number);
  for (std::int64_t c = 0; c < n; ++c) {
    const std::int64_t middle = num_blocks(k) / 2;  // in two parts, as threads do
    pack(kernels, &x[size(c, k)], n, k, c, 0, middle, panel.data());
    pack(kernels, &x[size(c, k)], n, k, c, middle, num_blocks(k), panel.data());
  }
  return panel;
}

// out[n][rows]
Floats multiply(const Kernels& kernels, const Weights& w, const Floats& x, std::int64_t n,
                std::int64_t rows_at_a_time = 1 << 20) {
  const Floats panel = packed(kernels, x, n, w.k);
  Floats out(size(n, w.rows), not_a_number);
  for (std::int64_t row = 0; row < w.rows; row += rows_at_a_time) {
    kernels.matmul(w.matrix(), panel.data(), n, row, std::min(w.rows, row + rows_at_a_time), out.data() + row, w.rows);
  }
  return out;
}

// The definition in the header.
Floats by_definition(const Weights& w, const Floats& x, std::int64_t n) {
  Floats out;
  for (std::int64_t c = 0; c < n; ++c) {
    for (std::int64_t r = 0; r < w.rows; ++r) {
      float sum[lanes] = {};
      for (std::int64_t i = 0; i < num_blocks(w.k) * lanes; ++i) {
        const float weight = i < w.k ? w.at(r, i) : 0.0f,
                    activation = i < w.k ? x[size(c, w.k) + static_cast<std::size_t>(i)] : 0.0f;
        sum[i % lanes] = std::fma(weight, activation, sum[i % lanes]);
      }
      for (int h = lanes / 2; h > 0; h /= 2) {
        for (int l = 0; l < h; ++l) sum[l] += sum[l + h];
      }
      out.push_back(sum[0]);
    }
  }
  return out;
}

}  // namespace

TEST(only_sets_without_half_precision_conversion_get_the_scalar_kernel) {
  const bool converts = (check::tested_isa().usable() & (specdec::cpu::f16c | specdec::cpu::neon)) != 0;
  CHECK((&tested() == &kernels_scalar) == !converts);
}

TEST(products_have_the_bits_of_the_definition) {
  for (const Type type : types) {
    for (const std::int64_t k : {1, 15, 16, 17, 31, 32, 33, 48, 95, 100}) {
      const Weights w = random_weights(type, 27, k, static_cast<unsigned>(k));
      for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64}) {
        const Floats x = random_activations(n * k, static_cast<unsigned>(n));
        CHECK(same(multiply(tested(), w, x, n), by_definition(w, x, n)));
      }
    }
  }
}

TEST(any_split_of_the_rows_gives_the_same_bits) {
  for (const Type type : types) {
    const Weights w = random_weights(type, 53, 200, 1);
    for (const std::int64_t n : {1, 4, 8, 19}) {
      const Floats x = random_activations(n * w.k, 2), whole = multiply(tested(), w, x, n);
      for (const std::int64_t rows : {1, 2, 3, 5, 8, 24, 31}) CHECK(same(multiply(tested(), w, x, n, rows), whole));
    }
  }
}

// Several bands of rows, each as large as L2 allows.
TEST(long_rows_give_the_same_bits) {
  for (const Type type : types) {
    const Weights w = random_weights(type, 100, 6000, 3);
    const Floats x = random_activations(11 * w.k, 4), out = multiply(tested(), w, x, 11);
    CHECK(same(out, multiply(kernels_scalar, w, x, 11)));
    for (std::int64_t c = 0; c < 11; ++c) {  // alone, each column is the same
      const Floats column(x.begin() + c * w.k, x.begin() + (c + 1) * w.k);
      const Floats expected(out.begin() + c * w.rows, out.begin() + (c + 1) * w.rows);
      CHECK(same(multiply(tested(), w, column, 1), expected));
    }
  }
}

// One weight per row, in each lane and in the incomplete block: its value must come out.
TEST(every_16_bit_pattern_is_converted_exactly) {
  constexpr std::int64_t k = 19, rows = 1 << 16;
  for (const Type type : {Type::f16, Type::bf16}) {
    Weights w(type, rows, k);
    std::vector<std::int64_t> place(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      place[static_cast<std::size_t>(r)] = (r * 7 + r / 24) % k;
      w.set(r, place[static_cast<std::size_t>(r)], static_cast<std::uint32_t>(r));
    }
    for (const std::int64_t n : {1, 5}) {
      const Floats out = multiply(tested(), w, Floats(size(n, k), 1.0f), n);
      for (std::int64_t r = 0; r < rows; ++r) {
        const float expected = value_of(type, static_cast<std::uint32_t>(r));
        for (std::int64_t c = 0; c < n; ++c) {
          const float y = out[size(c, rows) + static_cast<std::size_t>(r)];
          CHECK(y == expected || (std::isnan(y) && std::isnan(expected)));
        }
      }
    }
  }
}

TEST(products_are_close_to_exact_arithmetic) {
  for (const Type type : types) {
    const Weights w = random_weights(type, 40, 1000, 5);
    constexpr std::int64_t n = 9;
    const Floats x = random_activations(n * w.k, 6), out = multiply(tested(), w, x, n);
    double largest_error = 0;
    for (std::int64_t c = 0; c < n; ++c) {
      for (std::int64_t r = 0; r < w.rows; ++r) {
        double exact = 0, magnitude = 0;
        for (std::int64_t i = 0; i < w.k; ++i) {
          const double product =
              static_cast<double>(w.at(r, i)) * static_cast<double>(x[size(c, w.k) + static_cast<std::size_t>(i)]);
          exact += product;
          magnitude += std::fabs(product);
        }
        // A number takes part in at most k / 16 + 1 roundings of its lane and 4 of the tree.
        const double error = std::fabs(static_cast<double>(out[size(c, w.rows) + static_cast<std::size_t>(r)]) - exact);
        CHECK(error <= magnitude * static_cast<double>(num_blocks(w.k) + 4) * 0x1p-24);
        largest_error = std::max(largest_error, error / magnitude);
      }
    }
    CHECK(largest_error > 0);  // the comparison sees rounding
  }
}

TEST(a_bad_activation_spoils_its_column_and_no_other) {
  for (const Type type : types) {
    const Weights w = random_weights(type, 30, 70, 7);
    for (const float bad : {not_a_number, infinity}) {
      for (const std::int64_t n : {1, 2, 8, 12}) {
        Floats x = random_activations(n * w.k, 8);
        const Floats clean = multiply(tested(), w, x, n);
        const std::int64_t spoiled = n / 2;
        x[size(spoiled, w.k) + 65] = bad;
        const Floats out = multiply(tested(), w, x, n);
        for (std::int64_t i = 0; i < n * w.rows; ++i) {
          const auto at = static_cast<std::size_t>(i);
          if (i / w.rows == spoiled) CHECK(!std::isfinite(out[at]));
          else CHECK(out[at] == clean[at]);
        }
      }
    }
  }
}

TEST(another_order_of_summation_is_noticed) {
  const Weights w = random_weights(Type::f16, 64, 512, 9);
  Weights reversed = w;
  Floats x = random_activations(w.k, 10);
  const Floats out = multiply(tested(), w, x, 1);
  std::reverse(x.begin(), x.end());
  for (std::int64_t r = 0; r < w.rows; ++r) {
    for (std::int64_t i = 0; i < w.k; ++i)
      std::memcpy(&reversed.memory[w.place(r, i)], &w.memory[w.place(r, w.k - 1 - i)], 2);
  }
  CHECK(!same(multiply(tested(), reversed, x, 1), out));
}

TEST(only_the_rows_asked_for_are_written) {
  const Weights w = random_weights(Type::f16, 60, 40, 11);
  for (const std::int64_t n : {1, 5, 8, 10}) {
    const Floats x = random_activations(n * w.k, 12), panel = packed(tested(), x, n, w.k),
                 expected = multiply(kernels_scalar, w, x, n);
    constexpr std::int64_t ldo = 70;
    Floats out(size(n, ldo), 123.0f);
    tested().matmul(w.matrix(), panel.data(), n, 13, 47, out.data() + 13, ldo);
    for (std::int64_t c = 0; c < n; ++c) {
      for (std::int64_t r = 0; r < ldo; ++r) {
        const bool written = r >= 13 && r < 47;
        CHECK(out[size(c, ldo) + static_cast<std::size_t>(r)] ==
              (written ? expected[size(c, w.rows) + static_cast<std::size_t>(r)] : 123.0f));
      }
    }
  }
}

KERNEL_TEST_MAIN()
