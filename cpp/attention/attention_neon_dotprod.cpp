// NEON kernels with dot products of bytes: sixteen lanes in four registers.
#include <arm_neon.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

struct Lanes {
  float32x4_t x[4];
};
constexpr int full_tile = 4;  // uses 16 registers for sums, 4 for a strip and 1 for an operand, of 32
constexpr int tile_strips(int rows) { return rows > 2 ? 1 : 2; }

template <class F>
inline Lanes each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
inline Lanes load(const float* x) {
  return each([&](int i) { return vld1q_f32(x + 4 * i); });
}
inline void store(float* x, const Lanes& v) {
  for (int i = 0; i < 4; ++i) vst1q_f32(x + 4 * i, v.x[i]);
}
inline Lanes broadcast(float x) {
  return each([&](int) { return vdupq_n_f32(x); });
}
inline Lanes add(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return vaddq_f32(a.x[i], b.x[i]); });
}
inline Lanes multiply(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return vmulq_f32(a.x[i], b.x[i]); });
}
inline Lanes fused(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each([&](int i) { return vfmaq_f32(c.x[i], a.x[i], b.x[i]); });
}
inline float32x4_t maximum_of_four(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Lanes maximum(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return maximum_of_four(a.x[i], b.x[i]); });
}

inline float32x4_t four_halves(uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }
inline float half(const char* x) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return vgetq_lane_f32(four_halves(vdup_n_u16(bits)), 0);
}
inline Lanes load_f16(const std::uint16_t* x) {
  return each([&](int i) { return four_halves(vld1_u16(x + 4 * i)); });
}
inline Lanes load_i8(const std::int8_t* x) {
  const int8x16_t bytes = vld1q_s8(x);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  const auto four = [](int16x4_t v) { return vcvtq_f32_s32(vmovl_s16(v)); };
  return {{four(vget_low_s16(low)), four(vget_high_s16(low)), four(vget_low_s16(high)), four(vget_high_s16(high))}};
}

inline float sum_of(const Lanes& v) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v.x[0], v.x[2]), vaddq_f32(v.x[1], v.x[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest_of(const Lanes& v) {
  const float32x4_t four = maximum_of_four(maximum_of_four(v.x[0], v.x[2]), maximum_of_four(v.x[1], v.x[3]));
  const float32x4_t two = maximum_of_four(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(maximum_of_four(two, vextq_f32(two, two, 1)), 0);
}

// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(const Lanes& p, const Lanes& n, const Lanes& x) {
  return each([&](int i) {
    const int32x4_t bits = vaddq_s32(vreinterpretq_s32_f32(p.x[i]), vshlq_n_s32(vcvtq_s32_f32(n.x[i]), 23));
    return vreinterpretq_f32_s32(vbicq_s32(bits, vreinterpretq_s32_u32(vcltq_f32(x.x[i], vdupq_n_f32(-87.0f)))));
  });
}

inline void transpose(const Lanes (&rows)[lanes], Lanes (&x)[lanes]) {
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      const float32x4_t a = rows[4 * r].x[c], b = rows[4 * r + 1].x[c], d = rows[4 * r + 2].x[c],
                        e = rows[4 * r + 3].x[c];
      const float64x2_t ab0 = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), ab1 = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
      const float64x2_t de0 = vreinterpretq_f64_f32(vtrn1q_f32(d, e)), de1 = vreinterpretq_f64_f32(vtrn2q_f32(d, e));
      x[4 * c].x[r] = vreinterpretq_f32_f64(vtrn1q_f64(ab0, de0));
      x[4 * c + 1].x[r] = vreinterpretq_f32_f64(vtrn1q_f64(ab1, de1));
      x[4 * c + 2].x[r] = vreinterpretq_f32_f64(vtrn2q_f64(ab0, de0));
      x[4 * c + 3].x[r] = vreinterpretq_f32_f64(vtrn2q_f64(ab1, de1));
    }
  }
}
inline void load_f16_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  Lanes rows[lanes];
  for (int i = 0; i < lanes; ++i) rows[i] = load_f16(reinterpret_cast<const std::uint16_t*>(row + i * stride));
  transpose(rows, x);
}
inline void load_i8_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  Lanes rows[lanes];
  for (int i = 0; i < lanes; ++i) rows[i] = load_i8(reinterpret_cast<const std::int8_t*>(row + i * stride));
  transpose(rows, x);
}
inline Lanes load_f16_column(const char* row, std::int64_t stride) {
  std::uint16_t halves_of_rows[lanes];
  for (int i = 0; i < lanes; ++i) __builtin_memcpy(halves_of_rows + i, row + i * stride, 2);
  return load_f16(halves_of_rows);
}

// --- integers ---------------------------------------------------------------------------------------------------

struct Ints {
  int32x4_t x[4];
};
constexpr int quad_rows = 4;  // uses 16 registers for sums, 4 for a strip and 1 for an operand, of 32
constexpr int quad_strips(int rows) { return rows > 2 ? 1 : 2; }

inline int8x16_t load_bytes(const char* x) { return vld1q_s8(reinterpret_cast<const std::int8_t*>(x)); }
inline void store_bytes(char* x, int8x16_t v) { vst1q_s8(reinterpret_cast<std::int8_t*>(x), v); }
template <class F>
inline Ints each_int(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
inline Ints load_quads(const char* x) {
  return each_int([&](int i) { return vreinterpretq_s32_s8(load_bytes(x + 16 * i)); });
}
inline Lanes to_floats(const Ints& v) {
  return each([&](int i) { return vcvtq_f32_s32(v.x[i]); });
}
inline int8x16_t rounded(const Lanes& v) {
  const auto eight = [&](int i) {
    return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.x[i])), vqmovn_s32(vcvtnq_s32_f32(v.x[i + 1])));
  };
  return vcombine_s8(vqmovn_s16(eight(0)), vqmovn_s16(eight(2)));
}
inline void store_rounded(std::int8_t* to, const Lanes& a, const Lanes& b) {
  vst1q_s8(to, rounded(a));
  vst1q_s8(to + lanes, rounded(b));
}
inline Ints dot(const Ints& sum, const Ints& quads, const std::int8_t* four) {
  std::int32_t quad;
  __builtin_memcpy(&quad, four, sizeof quad);
  const int8x16_t other = vreinterpretq_s8_s32(vdupq_n_s32(quad));
  return each_int([&](int i) { return vdotq_s32(sum.x[i], vreinterpretq_s8_s32(quads.x[i]), other); });
}
inline Ints score_start(const std::int32_t*) { return Ints{}; }
inline Ints score_dot(const Ints& sum, const Ints& keys, const std::int8_t* query) { return dot(sum, keys, query); }
inline Ints value_dot(const Ints& sum, const Ints& values, const std::int8_t* weights) {
  return dot(sum, values, weights);
}

inline void transpose_keys(const char* row, std::int64_t stride, char* to) {
  for (int part = 0; part < 2; ++part) {  // of the 32 numbers
    for (int cell = 0; cell < lanes; cell += 4) {
      const auto quads = [&](int i) { return vreinterpretq_s32_s8(load_bytes(row + (cell + i) * stride + 16 * part)); };
      const int32x4_t a = quads(0), b = quads(1), c = quads(2), d = quads(3);
      const int64x2_t ab[] = {vreinterpretq_s64_s32(vtrn1q_s32(a, b)), vreinterpretq_s64_s32(vtrn2q_s32(a, b))};
      const int64x2_t cd[] = {vreinterpretq_s64_s32(vtrn1q_s32(c, d)), vreinterpretq_s64_s32(vtrn2q_s32(c, d))};
      for (int i = 0; i < 2; ++i) {
        char* quad = to + (4 * part + i) * 64 + 4 * cell;
        store_bytes(quad, vreinterpretq_s8_s64(vtrn1q_s64(ab[i], cd[i])));
        store_bytes(quad + 128, vreinterpretq_s8_s64(vtrn2q_s64(ab[i], cd[i])));
      }
    }
  }
}
inline void interleave_values(const char* row, std::int64_t stride, char* first, char* second) {
  for (int part = 0; part < 2; ++part) {
    char* to = part == 0 ? first : second;
    const int8x16_t a = load_bytes(row), b = load_bytes(row + stride), c = load_bytes(row + 2 * stride),
                    d = load_bytes(row + 3 * stride);
    const int16x8_t ab[] = {vreinterpretq_s16_s8(vzip1q_s8(a, b)), vreinterpretq_s16_s8(vzip2q_s8(a, b))};
    const int16x8_t cd[] = {vreinterpretq_s16_s8(vzip1q_s8(c, d)), vreinterpretq_s16_s8(vzip2q_s8(c, d))};
    for (int i = 0; i < 2; ++i) {
      store_bytes(to + 32 * i, vreinterpretq_s8_s16(vzip1q_s16(ab[i], cd[i])));
      store_bytes(to + 32 * i + 16, vreinterpretq_s8_s16(vzip2q_s16(ab[i], cd[i])));
    }
    row += 16;
  }
}

#include "attention/attention_int8.h"

}  // namespace

const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, read, merge, finish};

}  // namespace specdec::attention
