#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

using Lanes = __m512;
constexpr int full_tile = 8;  // 16 sums, 2 strips of the 32 registers
constexpr int tile_strips(int rows) { return rows == 8 ? 2 : 4; }

inline Lanes load(const float* x) { return _mm512_loadu_ps(x); }
inline void store(float* x, Lanes v) { _mm512_storeu_ps(x, v); }
inline Lanes broadcast(float x) { return _mm512_set1_ps(x); }
inline Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes multiply(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes maximum(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
inline Lanes load_f16(const std::uint16_t* x) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))); }
inline Lanes load_i8(const std::int8_t* x) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)))); }
inline float half(const char* x) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return _cvtsh_ss(bits);
}

// Swaps the halves, then the quarters, the eighths, the sixteenths: every lane ends with the result.
template <class F>
inline float fold(Lanes v, F f) {
  v = f(v, _mm512_shuffle_f32x4(v, v, 0x4E));
  v = f(v, _mm512_shuffle_f32x4(v, v, 0xB1));
  v = f(v, _mm512_permute_ps(v, 0x4E));
  v = f(v, _mm512_permute_ps(v, 0xB1));
  return _mm512_cvtss_f32(v);
}
inline float sum_of(Lanes v) { return fold(v, add); }
inline float largest_of(Lanes v) { return fold(v, maximum); }

// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(Lanes p, Lanes n, Lanes x) {
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ), _mm512_castsi512_ps(bits));
}

inline void transpose(Lanes (&x)[lanes]) {
  Lanes y[lanes];
  for (int i = 0; i < lanes; i += 2) {
    y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  const auto low = [](Lanes a, Lanes b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
  const auto high = [](Lanes a, Lanes b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); };
  for (int i = 0; i < lanes; i += 4) {  // x[i + j]: column 4 * quarter + j of rows i .. i + 3
    x[i] = low(y[i], y[i + 2]);
    x[i + 1] = high(y[i], y[i + 2]);
    x[i + 2] = low(y[i + 1], y[i + 3]);
    x[i + 3] = high(y[i + 1], y[i + 3]);
  }
  for (int j = 0; j < 4; ++j) {  // quarters of 4 vectors: a 4 x 4 transposition of 128-bit pieces
    const Lanes a = _mm512_shuffle_f32x4(x[j], x[4 + j], 0x88), b = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0x88);
    const Lanes c = _mm512_shuffle_f32x4(x[j], x[4 + j], 0xDD), d = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0xDD);
    y[j] = _mm512_shuffle_f32x4(a, b, 0x88);
    y[8 + j] = _mm512_shuffle_f32x4(a, b, 0xDD);
    y[4 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
    y[12 + j] = _mm512_shuffle_f32x4(c, d, 0xDD);
  }
  for (int i = 0; i < lanes; ++i) x[i] = y[i];
}

#include "attention/attention_kernel.h"

}  // namespace

const Kernels kernels_avx512 = {read_chunk, merge, finish};

}  // namespace specdec::attention
