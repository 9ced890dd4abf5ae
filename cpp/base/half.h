// IEEE 754 half to single precision in plain C++.
#pragma once

#include <cstdint>

namespace specdec {

// Exact. Static, so that files for several instruction sets may include it.
static inline float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace specdec
