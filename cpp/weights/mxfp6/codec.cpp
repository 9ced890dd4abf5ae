#include "weights/mxfp6/codec.h"

#include <cstring>

namespace specdec::mxfp6 {
namespace {

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

constexpr std::uint32_t magnitude_mask = 0x7fffffffu;
constexpr std::uint32_t infinity_bits = 0x7f800000u;

// 2^(scale - 127) for every scale byte; 255 is NaN.
float scale_value(std::uint8_t scale) {
  if (scale == 0) return 0x1p-127f;
  if (scale == 255) return float_of(0x7fc00000u);
  return float_of(static_cast<std::uint32_t>(scale) << 23);
}

// 2^(127 - scale), the factor that brings a block into code range; scale is 1..253.
float inverse_scale(std::uint8_t scale) { return float_of((254u - scale) << 23); }

// Rounds |x|, already scaled, to a representable magnitude: nearest even, saturating. Branch-free so that loops
// vectorise. Adding 2^(e + 23 - mantissa_bits), e the binade of |x| but at least the lowest normal one, leaves no bits
// below the step.
float round_magnitude(float magnitude) {
  constexpr std::uint32_t lowest = static_cast<std::uint32_t>(127 + 1 - exponent_bias) << 23;
  const float capped = magnitude < max_value ? magnitude : max_value;
  const std::uint32_t binade = bits_of(capped) & infinity_bits;
  const std::uint32_t clamped = binade > lowest ? binade : lowest;
  const float magic = float_of(clamped + (static_cast<std::uint32_t>(23 - mantissa_bits) << 23));
  return (capped + magic) - magic;
}

// Code of a representable magnitude. Normal ones are the top bits of the float with another bias; the others are
// counted.
std::uint32_t magnitude_code(float rounded) {
  constexpr std::uint32_t shift = static_cast<std::uint32_t>(23 - mantissa_bits);
  constexpr std::uint32_t lowest = static_cast<std::uint32_t>(127 + 1 - exponent_bias) << 23;
  const std::uint32_t normal =
      (bits_of(rounded) >> shift) - (static_cast<std::uint32_t>(127 - exponent_bias) << mantissa_bits);
  const auto subnormal = static_cast<std::uint32_t>(static_cast<std::int32_t>(rounded / code_unit));
  return bits_of(rounded) >= lowest ? normal : subnormal;
}

// Squared error under `scale` in units of 4^(scale - 127). The differences are exact in float, their squares in double.
double squared_error(std::uint8_t scale, const float* x) {
  const float inverse = inverse_scale(scale);
  float difference[block_size];
  for (int i = 0; i < block_size; ++i) {
    const float magnitude = float_of(bits_of(x[i]) & magnitude_mask) * inverse;
    difference[i] = magnitude - round_magnitude(magnitude);
  }
  double sum[4] = {0, 0, 0, 0};
  for (int i = 0; i < block_size; i += 4) {
    for (int j = 0; j < 4; ++j) {
      const double d = static_cast<double>(difference[i + j]);
      sum[j] += d * d;
    }
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Bits of the largest magnitude; NaN and infinity compare above every finite value.
std::uint32_t largest_bits(const float* x) {
  std::uint32_t largest = 0;
  for (int i = 0; i < block_size; ++i) {
    const std::uint32_t magnitude = bits_of(x[i]) & magnitude_mask;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

int clamp_scale(int scale) { return scale < min_scale ? min_scale : scale > max_scale ? max_scale : scale; }

std::uint8_t block_scale_of(ScaleRule rule, const float* x, std::uint32_t largest) {
  if (largest == 0) return scale_bias;
  // A subnormal maximum has exponent field 0 and lands on the lowest scale like everything below 2^-124.
  const int ocp = clamp_scale(static_cast<int>(largest >> 23) - max_exponent);
  if (rule == ScaleRule::ocp) return static_cast<std::uint8_t>(ocp);
  int best = ocp;
  double best_error = squared_error(static_cast<std::uint8_t>(ocp), x);
  const auto consider = [&](int scale, double unit) {
    if (scale != clamp_scale(scale)) return;
    const double error = unit * squared_error(static_cast<std::uint8_t>(scale), x);
    if (error < best_error) best = scale, best_error = error;
  };
  // Maxima of 2^127 and more could round up to 2^128, which is not a finite float.
  if (largest >> 23 < 254) consider(ocp + 1, 4.0);
  consider(ocp - 1, 0.25);
  return static_cast<std::uint8_t>(best);
}

// One block; false if a value is not finite.
bool quantize_one(ScaleRule rule, const float* x, std::uint8_t* codes, std::uint8_t* scale) {
  const std::uint32_t largest = largest_bits(x);
  if (largest >= infinity_bits) return false;
  *scale = block_scale_of(rule, x, largest);
  quantize_block(*scale, x, codes);
  return true;
}

std::int64_t first_not_finite(const float* x) {
  std::int64_t i = 0;
  while ((bits_of(x[i]) & magnitude_mask) < infinity_bits) ++i;
  return i;
}

// codes: row r at codes + r * stride, 32 of them.
void pack_tile(const std::uint8_t* codes, std::int64_t stride, std::uint8_t* tile) {
  for (int half = 0; half < 2; ++half) {
    std::uint8_t* planes = tile + half * half_bytes;
    for (int row = 0; row < tile_rows; ++row) {
      const std::uint8_t* from = codes + row * stride + half * 4 * group_columns;
      for (int i = 0; i < group_columns; ++i) {
        const int place = group_columns * row + i;
        const int last = from[3 * group_columns + i] & 63;
        planes[place] = static_cast<std::uint8_t>((from[i] & 63) | last << 6);
        planes[group_places + place] = static_cast<std::uint8_t>((from[group_columns + i] & 63) | last >> 2 << 6);
        planes[2 * group_places + place] =
            static_cast<std::uint8_t>((from[2 * group_columns + i] & 63) | last >> 4 << 6);
      }
    }
  }
}

}  // namespace

std::uint8_t block_scale(ScaleRule rule, const float* x) noexcept { return block_scale_of(rule, x, largest_bits(x)); }

void quantize_block(std::uint8_t scale, const float* x, std::uint8_t* codes) noexcept {
  const float inverse = inverse_scale(scale);
  for (int i = 0; i < block_size; ++i) {
    const std::uint32_t sign = bits_of(x[i]) >> 31 << 5;
    const float magnitude = float_of(bits_of(x[i]) & magnitude_mask) * inverse;
    codes[i] = static_cast<std::uint8_t>(sign | magnitude_code(round_magnitude(magnitude)));
  }
}

std::int64_t quantize(ScaleRule rule, const float* x, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
                      std::uint8_t* scales) noexcept {
  for (std::int64_t block = 0; block < rows * (cols / block_size); ++block) {
    const float* values = x + block * block_size;
    if (!quantize_one(rule, values, codes + block * block_size, scales + block)) {
      return block * block_size + first_not_finite(values);
    }
  }
  return -1;
}

std::int64_t quantize_tiles(ScaleRule rule, const float* x, std::int64_t rows, std::int64_t cols,
                            std::uint8_t* tiles) noexcept {
  const std::int64_t blocks = cols / block_size;
  std::uint8_t codes[tile_rows * tile_columns];
  for (std::int64_t band = 0; band < rows / tile_rows; ++band) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      std::uint8_t* tile = tiles + (band * blocks + block) * tile_bytes;
      for (int row = 0; row < tile_rows; ++row) {
        const std::int64_t at = (band * tile_rows + row) * cols + block * block_size;
        if (!quantize_one(rule, x + at, codes + row * tile_columns, tile + tile_code_bytes + row)) {
          return at + first_not_finite(x + at);
        }
      }
      pack_tile(codes, tile_columns, tile);
    }
  }
  return -1;
}

void dequantize(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t cols,
                float* x) noexcept {
  for (std::int64_t block = 0; block < rows * (cols / block_size); ++block) {
    const float scale = scale_value(scales[block]);
    for (std::int64_t i = block * block_size; i < (block + 1) * block_size; ++i)
      x[i] = code_values.entry[codes[i] & 63] * scale;
  }
}

void pack(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t cols,
          std::uint8_t* tiles) noexcept {
  const std::int64_t blocks = cols / block_size;
  for (std::int64_t band = 0; band < rows / tile_rows; ++band) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      std::uint8_t* tile = tiles + (band * blocks + block) * tile_bytes;
      pack_tile(codes + band * tile_rows * cols + block * block_size, cols, tile);
      for (int row = 0; row < tile_rows; ++row)
        tile[tile_code_bytes + row] = scales[(band * tile_rows + row) * blocks + block];
    }
  }
}

void unpack(const std::uint8_t* tiles, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
            std::uint8_t* scales) noexcept {
  const std::int64_t blocks = cols / block_size;
  for (std::int64_t row = 0; row < rows; ++row) {
    const int r = static_cast<int>(row % tile_rows);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::uint8_t* tile = tiles + (row / tile_rows * blocks + block) * tile_bytes;
      std::uint8_t* to = codes + row * cols + block * block_size;
      for (int c = 0; c < tile_columns; ++c) to[c] = static_cast<std::uint8_t>(tile_code(tile, r, c));
      scales[row * blocks + block] = tile[tile_code_bytes + r];
    }
  }
}

void dequantize_row(const std::uint8_t* tiles, std::int64_t cols, std::int64_t row, float* x) noexcept {
  const std::int64_t blocks = cols / block_size;
  const int r = static_cast<int>(row % tile_rows);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::uint8_t* tile = tiles + (row / tile_rows * blocks + block) * tile_bytes;
    const float scale = scale_value(tile[tile_code_bytes + r]);
    for (int c = 0; c < tile_columns; ++c) x[block * block_size + c] = code_values.entry[tile_code(tile, r, c)] * scale;
  }
}

std::int64_t find_invalid_scale(const std::uint8_t* tiles, std::int64_t num_tiles) noexcept {
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    const std::uint8_t* scales = tiles + tile * tile_bytes + tile_code_bytes;
    for (int row = 0; row < tile_rows; ++row) {
      if (scales[row] < min_scale || scales[row] > max_scale) return tile;
    }
  }
  return -1;
}

}  // namespace specdec::mxfp6
