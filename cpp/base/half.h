// IEEE 754 half precision, and bfloat16, in plain C++.
#pragma once

#include <cstdint>

namespace specdec {

// Exact. Static, so that files for several instruction sets may include it.
static inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16, exponent = (half >> 10) & 31,
                      fraction = half & 1023;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float bfloat_to_float(std::uint16_t bfloat) noexcept {
  const std::uint32_t bits = static_cast<std::uint32_t>(bfloat) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to nearest even; NaN becomes a quiet NaN.
static inline std::uint16_t float_to_half(float x) noexcept {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // from 65520 on: infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, which the sum rounds to
    const float sum = __builtin_fabsf(x) + 0.5f;
    std::uint32_t sum_bits;
    __builtin_memcpy(&sum_bits, &sum, sizeof sum_bits);
    return static_cast<std::uint16_t>(sign | (sum_bits - 0x3f000000u));
  }
  const std::uint32_t rounded =
      magnitude + 0xfffu + (magnitude >> 13 & 1u);  // half of the last place, less one unit for ties to even
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace specdec
