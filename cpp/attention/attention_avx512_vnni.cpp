// AVX-512 VNNI kernels: sixteen lanes in one register.
#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

#include "attention/attention_x86.h"

using Lanes = __m512;
constexpr int full_tile = 8;  // uses 16 registers for sums and 2 for strips, of 32
constexpr int tile_strips(int rows) { return rows > 4 ? 2 : 4; }

inline Lanes load(const float* x) { return _mm512_loadu_ps(x); }
inline void store(float* x, Lanes v) { _mm512_storeu_ps(x, v); }
inline Lanes broadcast(float x) { return _mm512_set1_ps(x); }
inline Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes multiply(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes maximum(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
inline Lanes load_f16(const std::uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
inline Lanes load_i8(const std::int8_t* x) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}

// Reduces by swapping halves, quarters, eighths, sixteenths; every lane gets the result.
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

inline __attribute__((always_inline)) void load_f16_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  __m256i first[8], second[8];
  load_half_columns(row, stride, first, second);
  for (int i = 0; i < 8; ++i) {
    x[i] = _mm512_cvtph_ps(_mm256_permute2x128_si256(first[i], second[i], 0x20));
    x[8 + i] = _mm512_cvtph_ps(_mm256_permute2x128_si256(first[i], second[i], 0x31));
  }
}
inline void load_i8_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  __m128i columns[16];
  load_byte_columns(row, stride, columns);
  for (int i = 0; i < lanes; ++i) x[i] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(columns[i]));
}
// Not inline: the compiler would schedule the loads among products and delay these.
__attribute__((noinline)) Lanes load_f16_column(const char* row, std::int64_t stride) {
  return _mm512_cvtph_ps(gather_halves(row, stride));
}

// --- integers ---------------------------------------------------------------------------------------------------

using Ints = __m512i;
constexpr int quad_rows = 8;  // uses 16 registers for sums and 2 for strips, of 32
constexpr int quad_strips(int) { return 2; }

inline Ints load_quads(const char* x) { return _mm512_loadu_si512(x); }
inline Lanes to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline void store_rounded(std::int8_t* to, Lanes a, Lanes b) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + lanes), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(b)));
}
inline void largest_of_four(Lanes a, Lanes b, Lanes c, Lanes d, float* to) {
  const auto of_pairs = [](Lanes x, Lanes y) { return maximum(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y)); };
  const __m512d ab = _mm512_castps_pd(of_pairs(a, b)), cd = _mm512_castps_pd(of_pairs(c, d));
  Lanes all = maximum(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
  all = maximum(all, _mm512_shuffle_f32x4(all, all, 0x4E));
  all = maximum(all, _mm512_shuffle_f32x4(all, all, 0xB1));
  _mm_storeu_ps(to, _mm512_castps512_ps128(all));
}
inline __m512i broadcast_quad(const std::int8_t* x) {
  int quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm512_set1_epi32(quad);
}
inline Ints score_start(const std::int32_t* start) { return _mm512_set1_epi32(*start); }
inline Ints score_dot(Ints sum, Ints keys, const std::int8_t* query) {
  return _mm512_dpbusd_epi32(sum, keys, broadcast_quad(query));
}
inline Ints value_dot(Ints sum, Ints values, const std::int8_t* weights) {
  return _mm512_dpbusd_epi32(sum, broadcast_quad(weights), values);
}

// [first | second], 32 bytes each.
inline __m512i two_rows(const char* first, const char* second) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)),
                            1);
}

// Transposes sixteen cells' 32 numbers to quads[8][cell], adding 128 because VNNI's first operand is unsigned.
inline __attribute__((always_inline)) void transpose_keys(const char* row, std::int64_t stride, char* to) {
  __m512i y[2][4];  // [eight cells][i]: by 128 bits quad i of cells 0-3, 4 + i of 0-3, i of 4-7, 4 + i of 4-7
  for (int half = 0; half < 2; ++half, row += 8 * stride) {
    __m512i x[4], pairs[4];
    for (int i = 0; i < 4; ++i) x[i] = two_rows(row + i * stride, row + (4 + i) * stride);
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; ++i) {
      y[half][2 * i] = _mm512_unpacklo_epi64(pairs[i], pairs[2 + i]);
      y[half][2 * i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[2 + i]);
    }
  }
  const __m512i flip = _mm512_set1_epi8(-128);
  for (int i = 0; i < 4; ++i) {
    const __m512i first = _mm512_shuffle_i32x4(y[0][i], y[1][i], 0x88);
    const __m512i second = _mm512_shuffle_i32x4(y[0][i], y[1][i], 0xDD);
    _mm512_storeu_si512(to + i * 64, _mm512_xor_si512(first, flip));
    _mm512_storeu_si512(to + (4 + i) * 64, _mm512_xor_si512(second, flip));
  }
}

// Transposes four cells' 32 numbers to quads of one dimension each: the first sixteen dimensions, then the others.
inline __attribute__((always_inline)) void interleave_values(const char* row, std::int64_t stride, char* first,
                                                             char* second) {
  const __m512i ab = two_rows(row, row + stride), cd = two_rows(row + 2 * stride, row + 3 * stride);
  // First four dimensions of the four cells to each 128 bits, then by dimension.
  const __m512i four = _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
  const __m512i order = _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400);
  const __m512i others = _mm512_add_epi32(four, _mm512_set1_epi32(4));
  _mm512_storeu_si512(first, _mm512_shuffle_epi8(_mm512_permutex2var_epi32(ab, four, cd), order));
  _mm512_storeu_si512(second, _mm512_shuffle_epi8(_mm512_permutex2var_epi32(ab, others, cd), order));
}

#include "attention/attention_int8.h"

}  // namespace

const Kernels kernels_avx512_vnni = {"avx512_vnni",
                                     cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx512f | cpu::avx512bw | cpu::avx512_vnni,
                                     read, merge, finish};

}  // namespace specdec::attention
