// The rounding of activations to int8, for products with MXFP6 and stock quantized weights. This is its definition;
// rounding_x86.h gives the same bits.
//
// Per block of 32, with a = max |x|: scale = a / 127, code = x * (127 / a) rounded to nearest even, -127..127.
// A block with a < 2^-110 counts as zeros, with scale 0. A block with NaN or infinity has scale NaN and zero codes.
#pragma once

#include <cstdint>

namespace specdec {

constexpr int rounded_block_size = 32;
constexpr float tiny_block = 0x1p-110f;

// x [32] -> codes [32]; returns the scale. Static, like all code that files for several instruction sets include:
// otherwise the linker could use a copy that was compiled for another CPU.
static inline float round_block(const float* x, std::int8_t* codes) noexcept {
  std::uint32_t largest_bits = 0;  // as integers, magnitudes order NaN and infinity above every finite value
  for (int i = 0; i < rounded_block_size; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffffu;
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof largest);
  const bool is_finite = largest_bits < 0x7f800000u;
  if (!is_finite || largest < tiny_block) {
    __builtin_memset(codes, 0, rounded_block_size);
    return is_finite ? 0.0f : __builtin_nanf("");
  }
  const float inverse = 127.0f / largest;
  // Adding 1.5 * 2^23 rounds to nearest even.
  for (int i = 0; i < rounded_block_size; ++i)
    codes[i] = static_cast<std::int8_t>((x[i] * inverse + 0x1.8p23f) - 0x1.8p23f);
  return largest / 127.0f;
}

}  // namespace specdec
