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

// --- integers ---------------------------------------------------------------------------------------------------

struct Ints {
  std::int32_t x[lanes];  // as quads, four bytes each
};
constexpr int quad_rows = 1;
constexpr int quad_strips(int) { return 1; }

inline Ints load_quads(const char* x) {
  Ints out;
  std::memcpy(&out, x, sizeof out);
  return out;
}
inline Lanes to_floats(const Ints& v) {
  return each([&](int i) { return static_cast<float>(v.x[i]); });
}
// Adding 1.5 * 2^23 rounds; the sum's lowest byte is the integer.
inline void store_rounded(std::int8_t* to, const Lanes& a, const Lanes& b) {
  for (int i = 0; i < 2 * lanes; ++i) {
    const float sum = (i < lanes ? a.x[i] : b.x[i - lanes]) + 12582912.0f;
    std::uint32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    to[i] = static_cast<std::int8_t>(bits & 255);
  }
}
inline Ints dot(Ints sum, const Ints& quads, const std::int8_t* four) {
  std::int8_t bytes[4 * lanes];
  std::memcpy(bytes, &quads, sizeof bytes);
  for (int i = 0; i < 4 * lanes; ++i) sum.x[i / 4] += bytes[i] * four[i % 4];
  return sum;
}
inline Ints score_start(const std::int32_t*) { return Ints{}; }
inline Ints score_dot(const Ints& sum, const Ints& keys, const std::int8_t* query) { return dot(sum, keys, query); }
inline Ints value_dot(const Ints& sum, const Ints& values, const std::int8_t* weights) {
  return dot(sum, values, weights);
}

inline void transpose_keys(const char* row, std::int64_t stride, char* to) {
  for (int quad = 0; quad < 8; ++quad) {
    for (int cell = 0; cell < lanes; ++cell, to += 4) std::memcpy(to, row + cell * stride + 4 * quad, 4);
  }
}
inline void interleave_values(const char* row, std::int64_t stride, char* first, char* second) {
  for (int d = 0; d < 32; ++d) {
    for (int i = 0; i < 4; ++i) (d < lanes ? first : second)[d % lanes * 4 + i] = row[i * stride + d];
  }
}

#include "attention/attention_int8.h"

}  // namespace

const Kernels kernels_scalar = {"scalar", 0, read, merge, finish};

}  // namespace specdec::attention
