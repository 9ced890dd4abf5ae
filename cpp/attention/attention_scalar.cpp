// Plain C++: the reference for the other kernels, and the fallback for CPUs without one.
#include <cstring>

#include "attention/attention.h"
#include "base/half.h"

namespace specdec::attention {
namespace {

struct Lanes {
  float x[lanes];
};
constexpr int full_tile = 1;
constexpr int tile_strips(int) { return 1; }

template <class F>
inline Lanes each(F f) {
  Lanes out;
  for (int i = 0; i < lanes; ++i) out.x[i] = f(i);
  return out;
}
inline Lanes load(const float* x) {
  return each([&](int i) { return x[i]; });
}
inline void store(float* x, const Lanes& v) {
  for (int i = 0; i < lanes; ++i) x[i] = v.x[i];
}
inline Lanes broadcast(float x) {
  return each([&](int) { return x; });
}
inline Lanes add(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.x[i] + b.x[i]; });
}
inline Lanes multiply(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.x[i] * b.x[i]; });
}
inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each([&](int i) { return __builtin_fmaf(a.x[i], b.x[i], c.x[i]); });
}
inline Lanes maximum(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}

inline float half(const char* x) {
  std::uint16_t bits;
  std::memcpy(&bits, x, sizeof bits);
  return half_to_float(bits);
}
inline Lanes load_f16(const std::uint16_t* x) {
  return each([&](int i) { return half_to_float(x[i]); });
}
inline Lanes load_i8(const std::int8_t* x) {
  return each([&](int i) { return static_cast<float>(x[i]); });
}

template <class F>
inline float fold(Lanes v, F f) {
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v.x[i] = f(v.x[i], v.x[i + width]);
  }
  return v.x[0];
}
inline float sum_of(const Lanes& v) {
  return fold(v, [](float a, float b) { return a + b; });
}
inline float largest_of(const Lanes& v) {
  return fold(v, [](float a, float b) { return a > b ? a : b; });
}
// Columns of sixteen rows: x[j] holds number j of each.
inline void load_f16_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  for (int j = 0; j < lanes; ++j) x[j] = each([&](int i) { return half(row + i * stride + 2 * j); });
}
inline void load_i8_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  for (int j = 0; j < lanes; ++j)
    x[j] = each([&](int i) { return static_cast<float>(static_cast<std::int8_t>(row[i * stride + j])); });
}
inline Lanes load_f16_column(const char* row, std::int64_t stride) {
  return each([&](int i) { return half(row + i * stride); });
}

// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(const Lanes& p, const Lanes& n, const Lanes& x) {
  return each([&](int i) {
    if (x.x[i] < -87.0f) return 0.0f;
    if (x.x[i] != x.x[i]) return x.x[i];
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

const Kernels kernels_scalar = {"scalar", 0, read_chunk, merge, finish};

}  // namespace specdec::attention
