// exp(x) for x <= 0 without branches or calls, so that compilers vectorise loops over it: 2^n * polynomial(r), where
// x = n ln2 + r and |r| <= ln2 / 2. The polynomial is summed in short chains (Estrin's scheme): CPUs wait for long
// ones. Gives the same bits on every machine (-ffp-contract=off: no fused multiply-adds). The functions are static: the
// linker could use the copy that was compiled for AVX-512 on CPUs without it.
#pragma once

#include <cstdint>

namespace specdec::sampling {

// p * 2^n, where n is in the low bits of `shifted`. Garbage if that is not a normal number.
template <class Bits, int mantissa_bits, class Real>
static inline Real scaled(Real p, Real shifted) {
  static_assert(sizeof(Bits) == sizeof(Real));
  Bits exponent, bits;
  __builtin_memcpy(&exponent, &shifted, sizeof exponent);
  __builtin_memcpy(&bits, &p, sizeof bits);
  bits += exponent << mantissa_bits;
  __builtin_memcpy(&p, &bits, sizeof p);
  return p;
}

// Relative error below 1e-15; 0 below -708, where doubles become denormal.
static inline double exp_not_positive(double x) {
  constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves n in the low bits
  const double shifted = x * 1.4426950408889634 + to_integer;
  const double n = shifted - to_integer;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // ln2 in two parts
  const double r2 = r * r, r4 = r2 * r2;
  const double a = (1.0 / 2 + 1.0 / 6 * r) + r2 * (1.0 / 24 + 1.0 / 120 * r);
  const double b = (1.0 / 720 + 1.0 / 5040 * r) + r2 * (1.0 / 40320 + 1.0 / 362880 * r);
  const double c = (1.0 / 3628800 + 1.0 / 39916800 * r) + r2 * (1.0 / 479001600 + 1.0 / 6227020800 * r);
  const double p = (1.0 + r) + r2 * (a + r4 * (b + r4 * c));
  return x < -708.0 ? 0.0 : scaled<std::uint64_t, 52>(p, shifted);
}

// Relative error below 2e-7; 0 below -87. The polynomial is that of degree 6 with the least relative error among those
// that begin with 1 + r (3e-9, by Lawson's iteration); the rest is rounding.
static inline float exp_not_positive(float x) {
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x * 1.44269504f + to_integer;
  const float n = shifted - to_integer;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  const float r2 = r * r;
  const float a = (0.499999935f + 0.166665207f * r) + r2 * ((0.0416683874f + 0.00836870985f * r) + r2 * 0.00138146132f);
  const float p = (1.0f + r) + r2 * a;
  return x < -87.0f ? 0.0f : scaled<std::uint32_t, 23>(p, shifted);
}

}  // namespace specdec::sampling
