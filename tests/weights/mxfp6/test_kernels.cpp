// Every kernel table against the scalar one, bit for bit. Usage: test_kernels NAME; skipped if this CPU lacks it.
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernel_test.h"
#include "weights/mxfp6/codec.h"
#include "weights/mxfp6/kernels.h"

using namespace specdec::mxfp6;

using check::same;

namespace {

const Kernels& tested() { return check::tested(all_kernels()); }

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::uint64_t recorded_hash = 0x08c921a1279f06c5u;

// Random codes and moderate scales, at an offset of `offset` bytes, because tiles need no alignment.
struct Weights {
  std::int64_t rows, k;
  std::vector<std::uint8_t> memory;
  std::size_t offset;
  const std::uint8_t* tiles() const { return memory.data() + offset; }
};

Weights random_weights(std::int64_t rows, std::int64_t k, unsigned seed, int lowest_scale = 110,
                       int highest_scale = 130) {
  std::mt19937 random(seed);
  Weights w{rows, k, {}, seed % 4};
  const std::int64_t tiles = rows / tile_rows * (k / block_size);
  w.memory.resize(w.offset + static_cast<std::size_t>(tiles * tile_bytes));
  for (auto& byte : w.memory) byte = static_cast<std::uint8_t>(random());
  std::uniform_int_distribution<int> scale(lowest_scale, highest_scale);
  for (std::int64_t t = 0; t < tiles; ++t) {
    for (int row = 0; row < tile_rows; ++row) {
      w.memory[w.offset + static_cast<std::size_t>(t * tile_bytes + tile_code_bytes + row)] =
          static_cast<std::uint8_t>(scale(random));
    }
  }
  return w;
}

std::vector<float> random_activations(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (auto& value : x) value = normal(random);
  return x;
}

std::vector<unsigned char> make_panel(const Kernels& kernels, const std::vector<float>& x, std::int64_t n,
                                      std::int64_t k) {
  std::vector<unsigned char> panel(panel_bytes(n, k));
  for (std::int64_t c = 0; c < n; ++c) kernels.quantize(x.data() + c * k, n, k, c, 0, k / block_size, panel.data());
  return panel;
}

std::vector<float> multiply(const Kernels& kernels, const Weights& w, const std::vector<float>& x, std::int64_t n) {
  const auto panel = make_panel(kernels, x, n, w.k);
  std::vector<unsigned char> scratch(scratch_bytes(n, w.k));
  std::vector<float> out(static_cast<std::size_t>(n * w.rows), not_a_number);
  kernels.matmul(w.tiles(), w.k, panel.data(), n, 0, w.rows / tile_rows, out.data(), w.rows, scratch.data());
  return out;
}

bool all_nan(const std::vector<float>& x) {
  for (const float value : x) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

}  // namespace

TEST(the_name_selects_the_table) {
  const std::string name = check::tested_name();
  CHECK(tested().name == (name == "neon_i8mm" ? "neon_dotprod" : name));  // no kernels of its own
}

TEST(quantized_panels_have_equal_bytes) {
  const Kernels& kernels = tested();
  constexpr std::int64_t k = 64 * block_size;
  for (const std::int64_t n : {1, 3, 8, 11}) {
    std::vector<float> x = random_activations(n * k, static_cast<unsigned>(n));
    // Ties: multiples of 1/2 with a maximum of 127 divide without rounding.
    for (std::size_t i = 0; i < block_size; ++i) x[i] = static_cast<float>(i) - 16.5f;
    x[0] = 127.0f;
    for (std::size_t i = 32; i < 64; ++i) x[i] = 0.0f;
    for (std::size_t i = 64; i < 96; ++i) x[i] *= 1e-38f;
    for (std::size_t i = 96; i < 128; ++i) x[i] *= 1e-33f;
    for (std::size_t i = 128; i < 160; ++i) x[i] *= 1e37f;
    for (std::size_t i = 160; i < 192; ++i) x[i] = std::numeric_limits<float>::max() * (i % 2 == 0 ? 1.0f : -1.0f);
    for (std::size_t i = 192; i < 224; ++i) x[i] = 0x1p-110f * (i % 3 == 0 ? 1.0f : -0.999f);
    for (std::size_t i = 224; i < 256; ++i) x[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
    CHECK(make_panel(kernels, x, n, k) == make_panel(kernels_scalar, x, n, k));
  }
}

TEST(products_have_equal_bits_for_any_number_of_columns) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(5 * tile_rows, 11 * block_size, 7);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 67}) {
    const auto x = random_activations(n * w.k, static_cast<unsigned>(n));
    CHECK(same(multiply(kernels, w, x, n), multiply(kernels_scalar, w, x, n)));
  }
}

// Kernels may treat rows larger than L1 differently.
TEST(long_rows_have_equal_bits) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(7 * tile_rows, 100 * block_size, 17);
  for (const std::int64_t n : {1, 2, 3, 8, 10, 26}) {
    const auto x = random_activations(n * w.k, static_cast<unsigned>(n));
    CHECK(same(multiply(kernels, w, x, n), multiply(kernels_scalar, w, x, n)));
  }
}

TEST(a_column_does_not_depend_on_its_neighbours) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(6 * tile_rows, 9 * block_size, 8);
  constexpr std::int64_t n = 29;
  const auto x = random_activations(n * w.k, 3);
  const auto together = multiply(kernels, w, x, n);
  for (std::int64_t c = 0; c < n; ++c) {
    const std::vector<float> one(x.begin() + c * w.k, x.begin() + (c + 1) * w.k);
    const std::vector<float> expected(together.begin() + c * w.rows, together.begin() + (c + 1) * w.rows);
    CHECK(same(multiply(kernels, w, one, 1), expected));
  }
}

TEST(any_split_into_bands_and_blocks_gives_the_same) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(11 * tile_rows, 7 * block_size, 9);
  for (const std::int64_t n : {1, 8, 13}) {
    const auto x = random_activations(n * w.k, 4);
    const auto expected = multiply(kernels, w, x, n);
    std::vector<unsigned char> panel(panel_bytes(n, w.k)), scratch(scratch_bytes(n, w.k));
    for (std::int64_t c = 0; c < n; ++c) {
      for (const std::int64_t block : {3, 0, 4, 1, 2, 6, 5})
        kernels.quantize(x.data() + c * w.k, n, w.k, c, block, block + 1, panel.data());
    }
    std::vector<float> out(expected.size());
    const std::int64_t bounds[] = {0, 1, 3, 8, 11};
    for (std::size_t i = 0; i + 1 < std::size(bounds); ++i) {
      kernels.matmul(w.tiles(), w.k, panel.data(), n, bounds[i], bounds[i + 1], out.data() + bounds[i] * tile_rows,
                     w.rows, scratch.data());
    }
    CHECK(same(out, expected));
  }
}

TEST(writes_stay_inside_the_output_and_the_scratch) {
  const Kernels& kernels = tested();
  constexpr unsigned char guard = 0xA5;
  const Weights w = random_weights(6 * tile_rows, 5 * block_size, 10);
  for (const std::int64_t n : {1, 5, 8, 10, 24}) {
    const auto x = random_activations(n * w.k, 5);
    const auto panel = make_panel(kernels, x, n, w.k);
    const std::int64_t ldo = w.rows + 7;
    std::vector<float> out(static_cast<std::size_t>(n * ldo), 123.0f);
    std::vector<unsigned char> scratch(scratch_bytes(n, w.k) + 64, guard);
    kernels.matmul(w.tiles(), w.k, panel.data(), n, 2, 5, out.data() + 2 * tile_rows, ldo, scratch.data());
    const auto expected = multiply(kernels_scalar, w, x, n);
    for (std::int64_t c = 0; c < n; ++c) {
      for (std::int64_t row = 0; row < ldo; ++row) {
        const float value = out[static_cast<std::size_t>(c * ldo + row)];
        const bool written = row >= 2 * tile_rows && row < 5 * tile_rows;
        CHECK(value == (written ? expected[static_cast<std::size_t>(c * w.rows + row)] : 123.0f));
      }
    }
    for (std::size_t i = scratch.size() - 64; i < scratch.size(); ++i) CHECK(scratch[i] == guard);
  }
}

TEST(every_scale_byte_and_huge_or_tiny_activations_agree) {
  const Kernels& kernels = tested();
  for (const auto& [lowest, highest] : {std::pair{0, 255}, std::pair{1, 253}, std::pair{1, 5}, std::pair{249, 255}}) {
    const Weights w = random_weights(4 * tile_rows, 8 * block_size, 12, lowest, highest);
    for (const float size : {1e-36f, 1e-33f, 1e-20f, 1.0f, 1e20f, 1e37f}) {
      for (const std::int64_t n : {1, 8, 9}) {
        auto x = random_activations(n * w.k, 6);
        for (auto& value : x) value *= size;
        CHECK(same(multiply(kernels, w, x, n), multiply(kernels_scalar, w, x, n)));
      }
    }
  }
}

TEST(the_largest_sums_do_not_overflow) {
  const Kernels& kernels = tested();
  for (const int code : {0x1f, 0x3f}) {
    constexpr std::int64_t k = 2 * block_size;
    const std::vector<std::uint8_t> codes(tile_rows * k, static_cast<std::uint8_t>(code)),
        scales(tile_rows * k / block_size, 127);
    Weights w{tile_rows, k, std::vector<std::uint8_t>(2 * tile_bytes), 0};
    pack(codes.data(), scales.data(), tile_rows, k, w.memory.data());
    for (const std::int64_t n : {1, 8, 9}) {
      for (const float value : {127.0f, -127.0f}) {
        const std::vector<float> x(static_cast<std::size_t>(n * k), value);
        const float largest = max_value * (code == 0x3f ? -1.0f : 1.0f);
        for (const float y : multiply(kernels, w, x, n)) CHECK(y == largest * value * k);
      }
    }
  }
}

TEST(a_bad_activation_spoils_its_column_and_no_other) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(2 * tile_rows, 4 * block_size, 13);
  for (const float bad : {not_a_number, infinity, -infinity}) {
    for (const std::int64_t n : {1, 2, 8, 12}) {
      auto x = random_activations(n * w.k, 14);
      const auto clean = multiply(kernels, w, x, n);
      const std::int64_t spoiled = n / 2;
      x[static_cast<std::size_t>(spoiled * w.k + 77)] = bad;
      const auto out = multiply(kernels, w, x, n);
      for (std::int64_t c = 0; c < n; ++c) {
        const std::vector<float> column(out.begin() + c * w.rows, out.begin() + (c + 1) * w.rows);
        const std::vector<float> before(clean.begin() + c * w.rows, clean.begin() + (c + 1) * w.rows);
        CHECK(c == spoiled ? all_nan(column) : same(column, before));
      }
    }
  }
}

// Against the definition in double: |error| <= sum |w| * (half a step of the activations) + rounding of the sums.
TEST(products_are_close_to_exact_arithmetic) {
  const Kernels& kernels = tested();
  const Weights w = random_weights(4 * tile_rows, 16 * block_size, 15);
  constexpr std::int64_t n = 9;
  const auto x = random_activations(n * w.k, 16);
  const auto out = multiply(kernels, w, x, n);
  std::vector<float> row(static_cast<std::size_t>(w.k));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    dequantize_row(w.tiles(), w.k, r, row.data());
    for (std::int64_t c = 0; c < n; ++c) {
      double exact = 0, bound = 0, magnitude = 0;
      for (std::int64_t block = 0; block < w.k / block_size; ++block) {
        double largest = 0, weight_sum = 0;
        for (std::int64_t i = block * block_size; i < (block + 1) * block_size; ++i) {
          const double a = static_cast<double>(x[static_cast<std::size_t>(c * w.k + i)]),
                       v = static_cast<double>(row[static_cast<std::size_t>(i)]);
          exact += a * v;
          magnitude += std::fabs(a * v);
          largest = std::max(largest, std::fabs(a));
          weight_sum += std::fabs(v);
        }
        bound += weight_sum * largest / 127 * 0.5;
      }
      const auto at = static_cast<std::size_t>(c * w.rows + r);
      CHECK_NEAR(static_cast<double>(out[at]), exact, bound * 1.0001 + magnitude * 64 * 0x1p-24);
    }
  }
}

// The same bits on every architecture: compares a hash of products with a recorded value. The inputs come from a 64-bit
// congruential generator, which needs no library.
TEST(products_have_the_recorded_bits) {
  const Kernels& kernels = tested();
  std::uint64_t state = 42, hash = 14695981039346656037u;
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u; };
  Weights w{3 * tile_rows, 5 * block_size, std::vector<std::uint8_t>(15 * tile_bytes), 0};
  for (std::size_t i = 0; i < w.memory.size(); ++i) {
    w.memory[i] = static_cast<std::uint8_t>(i % tile_bytes < tile_code_bytes ? next() >> 56 : 110 + (next() >> 60));
  }
  constexpr std::int64_t n = 11;
  std::vector<float> x(static_cast<std::size_t>(n * w.k));
  for (auto& value : x) value = static_cast<float>(static_cast<std::int64_t>(next()) >> 40) * 0x1p-20f;
  for (const float value : multiply(kernels, w, x, n)) check::add_bits(hash, value);
  if (hash != recorded_hash) std::printf("hash %#llx\n", static_cast<unsigned long long>(hash));
  CHECK(hash == recorded_hash);
}

KERNEL_TEST_MAIN()
