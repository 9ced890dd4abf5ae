// The lanes one by one: the reference for the others, and what runs where there is no kernel of its own.
#include <cstring>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

struct Lanes {
  float x[lanes];
};
constexpr int block_vectors = 1;
template <int N>
struct Count { static constexpr int value = N; };

template <class F>
inline Lanes each(F f) {
  Lanes out;
  for (int i = 0; i < lanes; ++i) out.x[i] = f(i);
  return out;
}
inline Lanes load(const float* x) { return each([&](int i) { return x[i]; }); }
inline void store(float* x, const Lanes& v) {
  for (int i = 0; i < lanes; ++i) x[i] = v.x[i];
}
inline Lanes broadcast(float x) { return each([&](int) { return x; }); }
inline Lanes add(const Lanes& a, const Lanes& b) { return each([&](int i) { return a.x[i] + b.x[i]; }); }
inline Lanes multiply(const Lanes& a, const Lanes& b) { return each([&](int i) { return a.x[i] * b.x[i]; }); }
inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) { return each([&](int i) { return __builtin_fmaf(a.x[i], b.x[i], c.x[i]); }); }
inline Lanes maximum(const Lanes& a, const Lanes& b) { return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; }); }

// IEEE 754 half to single: exact.
inline float half(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline Lanes load_f16(const std::uint16_t* x) { return each([&](int i) { return half(x[i]); }); }
// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(const Lanes& p, const Lanes& n, const Lanes& x) {
  return each([&](int i) {
    if (x.x[i] < -87.0f) return 0.0f;
    std::uint32_t bits;
    std::memcpy(&bits, &p.x[i], sizeof(bits));
    bits += static_cast<std::uint32_t>(static_cast<std::int32_t>(n.x[i])) << 23;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  });
}

#include "attention/attention_kernel.h"

}  // namespace

void attend_scalar(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept {
  attend(problem, row_begin, row_end, scratch);
}

Attend attend_for(const char* isa) noexcept {
#if defined(__x86_64__)
  if (std::strcmp(isa, "avx512_vnni_vbmi") == 0) return attend_avx512;
  if (std::strcmp(isa, "avx2") == 0) return attend_avx2;
#endif
  (void)isa;
  return attend_scalar;
}

}  // namespace specdec::attention
