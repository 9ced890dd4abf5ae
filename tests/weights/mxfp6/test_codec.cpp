// The codec against the definitions in format.h, in double and exhaustively where that is possible.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "weights/mxfp6/codec.h"

using namespace specdec::mxfp6;

namespace {

constexpr ScaleRule both_rules[] = {ScaleRule::ocp, ScaleRule::mse};

// A code's value from sign, exponent and mantissa, by the format's definition.
double value_of(int code) {
  const int exponent = (code & 31) >> 3, mantissa = code & 7;
  const double fraction = mantissa / 8.0;
  const double magnitude = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 1);
  return (code & 32) != 0 ? -magnitude : magnitude;
}

// Nearest magnitude code by search; ties to the even code; above the range the largest.
int nearest_magnitude(double x) {
  if (x >= value_of(31)) return 31;
  int best = 0;
  for (int code = 1; code < 32; ++code) {
    const double closer = std::fabs(x - value_of(best)) - std::fabs(x - value_of(code));
    if (closer > 0 || (closer == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

double squared_error(std::uint8_t scale, const std::uint8_t* codes, const float* x) {
  double sum = 0;
  for (int i = 0; i < block_size; ++i) {
    const double d = static_cast<double>(x[i]) - std::ldexp(value_of(codes[i]), scale - 127);
    sum += d * d;
  }
  return sum;
}

std::vector<float> random_values(std::size_t count, unsigned seed, float tail) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (auto& value : x) value = normal(random) * std::exp(tail * normal(random));
  return x;
}

}  // namespace

TEST(all_codes_under_all_scales_have_their_values_and_come_back) {
  for (int scale = 0; scale <= 255; ++scale) {
    for (int half = 0; half < 2; ++half) {
      std::uint8_t codes[block_size], again[block_size];
      float x[block_size];
      for (int i = 0; i < block_size; ++i) codes[i] = static_cast<std::uint8_t>(half * block_size + i);
      const auto scale_byte = static_cast<std::uint8_t>(scale);
      dequantize(codes, &scale_byte, 1, block_size, x);
      for (int i = 0; i < block_size; ++i) {
        if (scale == 255) {
          CHECK(std::isnan(x[i]));
          continue;
        }
        const auto expected = static_cast<float>(std::ldexp(value_of(codes[i]), scale - 127));
        CHECK(std::memcmp(&x[i], &expected, sizeof expected) == 0);
      }
      const bool finite = scale < 126 + 127 - max_exponent;
      if (scale < min_scale || scale > max_scale || !finite) continue;
      quantize_block(scale_byte, x, again);
      // At the lowest scales the smallest values are subnormal floats, still exact.
      CHECK(std::equal(codes, codes + block_size, again));
    }
  }
}

TEST(rounding_is_to_nearest_even_and_saturates) {
  std::vector<float> points;
  for (int code = 0; code < 31; ++code) {
    const auto low = static_cast<float>(value_of(code)), high = static_cast<float>(value_of(code + 1));
    const float middle = (low + high) / 2;
    for (const float x : {low, middle, std::nextafterf(middle, 0.0f), std::nextafterf(middle, 100.0f)})
      points.push_back(x);
  }
  for (const float x : {0.0f, 7.5f, 7.7f, 8.0f, 28.0f, 29.0f, 30.0f, 32.0f, 1e30f, 3e38f, 1e-30f, 1e-45f})
    points.push_back(x);
  while (points.size() % (block_size / 2) != 0) points.push_back(0.0f);
  for (std::size_t at = 0; at < points.size(); at += block_size / 2) {
    for (const int scale : {127, 100, 2, 250}) {
      float x[block_size];
      std::uint8_t codes[block_size];
      for (std::size_t i = 0; i < block_size; ++i)
        x[i] = std::ldexp(points[at + i / 2], scale - 127) * (i % 2 == 0 ? 1.0f : -1.0f);
      bool finite = true;
      for (const float value : x) finite = finite && std::isfinite(value);
      if (!finite) continue;
      quantize_block(static_cast<std::uint8_t>(scale), x, codes);
      for (int i = 0; i < block_size; ++i) {
        const int expected =
            nearest_magnitude(std::ldexp(std::fabs(static_cast<double>(x[i])), 127 - scale)) | (i % 2) << 5;
        CHECK(codes[i] == expected);
      }
    }
  }
}

TEST(ocp_scale_is_floor_log2_of_the_maximum) {
  std::mt19937 random(1);
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const double mantissa : {1.0, 1.5, 1.99999988}) {
      float x[block_size] = {};
      const auto largest = static_cast<float>(std::ldexp(mantissa, exponent));
      x[random() % block_size] = -largest;
      const int expected = std::ilogb(largest) - 2 + 127;
      CHECK(block_scale(ScaleRule::ocp, x) == std::clamp(expected, 1, 253));
    }
  }
  const float zeros[block_size] = {};
  for (const ScaleRule rule : both_rules) CHECK(block_scale(rule, zeros) == 127);
}

TEST(mse_is_never_worse_than_ocp_and_picks_the_best_neighbour) {
  double total_ocp = 0, total_mse = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const auto x = random_values(block_size, seed, static_cast<float>(seed % 5) / 4);
    double best = std::numeric_limits<double>::infinity();
    const std::uint8_t ocp = block_scale(ScaleRule::ocp, x.data()), mse = block_scale(ScaleRule::mse, x.data());
    std::uint8_t codes[block_size];
    for (int scale = ocp - 1; scale <= ocp + 1; ++scale) {
      quantize_block(static_cast<std::uint8_t>(scale), x.data(), codes);
      best = std::min(best, squared_error(static_cast<std::uint8_t>(scale), codes, x.data()));
    }
    quantize_block(ocp, x.data(), codes);
    const double ocp_error = squared_error(ocp, codes, x.data());
    quantize_block(mse, x.data(), codes);
    const double mse_error = squared_error(mse, codes, x.data());
    CHECK(mse_error <= ocp_error * (1 + 1e-14));
    CHECK_NEAR(mse_error, best, best * 1e-14);
    total_ocp += ocp_error, total_mse += mse_error;
  }
  CHECK(total_mse < total_ocp);
}

TEST(values_that_are_not_finite_are_reported_with_their_place) {
  const float bad_values[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
  for (const float bad : bad_values) {
    for (const std::size_t place : {0u, 37u, 1023u}) {
      auto x = random_values(16 * 64, 3, 0);
      std::vector<std::uint8_t> codes(x.size()), scales(x.size() / block_size), tiles(2 * tile_bytes);
      CHECK(quantize(ScaleRule::mse, x.data(), 16, 64, codes.data(), scales.data()) == -1);
      CHECK(quantize_tiles(ScaleRule::mse, x.data(), 16, 64, tiles.data()) == -1);
      x[place] = bad;
      CHECK(quantize(ScaleRule::mse, x.data(), 16, 64, codes.data(), scales.data()) ==
            static_cast<std::int64_t>(place));
      CHECK(quantize_tiles(ScaleRule::mse, x.data(), 16, 64, tiles.data()) == static_cast<std::int64_t>(place));
    }
  }
}

TEST(tiles_hold_what_the_separate_arrays_hold) {
  constexpr std::int64_t rows = 48, cols = 160;
  for (const ScaleRule rule : both_rules) {
    const auto x = random_values(rows * cols, 4, 0.5f);
    std::vector<std::uint8_t> codes(rows * cols), scales(rows * cols / block_size), codes_again(codes),
        scales_again(scales);
    std::vector<std::uint8_t> tiles(rows / tile_rows * (cols / block_size) * tile_bytes), tiles_again(tiles);
    std::vector<float> values(rows * cols), row(cols);
    quantize(rule, x.data(), rows, cols, codes.data(), scales.data());
    pack(codes.data(), scales.data(), rows, cols, tiles.data());
    quantize_tiles(rule, x.data(), rows, cols, tiles_again.data());
    CHECK(tiles == tiles_again);
    unpack(tiles.data(), rows, cols, codes_again.data(), scales_again.data());
    CHECK(codes == codes_again && scales == scales_again);
    dequantize(codes.data(), scales.data(), rows, cols, values.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      dequantize_row(tiles.data(), cols, r, row.data());
      CHECK(std::memcmp(row.data(), values.data() + r * cols, sizeof(float) * cols) == 0);
    }
  }
}

// The layout: three planes of 64 bytes per half, place 4 * row + i, the fourth group in the top bits.
TEST(the_layout_is_the_documented_one) {
  std::vector<std::uint8_t> codes(tile_rows * tile_columns), scales(tile_rows), tile(tile_bytes);
  std::mt19937 random(5);
  for (auto& code : codes) code = static_cast<std::uint8_t>(random() % 64);
  for (auto& scale : scales) scale = static_cast<std::uint8_t>(1 + random() % 253);
  pack(codes.data(), scales.data(), tile_rows, tile_columns, tile.data());
  const auto code = [&](int row, int group, int i) {
    return codes[static_cast<std::size_t>(row * 32 + group * 4 + i)];
  };
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 3; ++j) {
      for (int row = 0; row < 16; ++row) {
        for (int i = 0; i < 4; ++i) {
          const int last = code(row, 4 * half + 3, i) >> (2 * j) & 3;
          CHECK(tile[static_cast<std::size_t>(half * 192 + j * 64 + 4 * row + i)] ==
                (code(row, 4 * half + j, i) | last << 6));
        }
      }
    }
  }
  for (int row = 0; row < 16; ++row)
    CHECK(tile[static_cast<std::size_t>(384 + row)] == scales[static_cast<std::size_t>(row)]);
}

TEST(invalid_scales_are_found) {
  std::vector<std::uint8_t> tiles(7 * tile_bytes, 127);
  CHECK(find_invalid_scale(tiles.data(), 7) == -1);
  for (const int bad : {0, 254, 255}) {
    auto broken = tiles;
    broken[5 * tile_bytes + 399] = static_cast<std::uint8_t>(bad);
    CHECK(find_invalid_scale(broken.data(), 7) == 5);
  }
}

TEST_MAIN()
