// exp(x) for x <= 0 without branches or calls, so that compilers vectorise loops over it: 2^n * polynomial(r), where
// x = n ln2 + r and |r| <= ln2 / 2. Gives the same bits on every machine (-ffp-contract=off: no fused multiply-adds).
// The functions are static: the linker could use the copy that was compiled for AVX-512 on CPUs without it.
#pragma once

#include <cstdint>

namespace specdec::sampling {

// Relative error below 1e-15; 0 below -708, where doubles become denormal.
static inline double exp_not_positive(double x) {
  constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves n in the low bits
  const double clamped = x < -708.0 ? -708.0 : x;
  const double shifted = clamped * 1.4426950408889634 + to_integer;
  const double n = shifted - to_integer;
  const double r = (clamped - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // ln2 in two parts
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  std::uint64_t exponent, bits;
  __builtin_memcpy(&exponent, &shifted, sizeof exponent);
  __builtin_memcpy(&bits, &p, sizeof bits);
  bits += exponent << 52;
  double out;
  __builtin_memcpy(&out, &bits, sizeof out);
  return x < -708.0 ? 0.0 : out;
}

// Relative error below 1e-7; 0 below -87.
static inline float exp_not_positive(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float n = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounds to nearest; the constant is 1.5 * 2^23
  const float r = (clamped - n * 0.693145752f) - n * 1.42860677e-6f;    // ln2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t exponent = (static_cast<std::int32_t>(n) + 127) << 23;
  float power;
  __builtin_memcpy(&power, &exponent, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

}  // namespace specdec::sampling
