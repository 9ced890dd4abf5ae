// Sixteen lanes in two registers of 256 bits. The AVX2 and AVX-VNNI files include it inside an anonymous namespace;
// they define keys_are_unsigned before it (whether keys in quads get 128 added for VNNI's unsigned first operand), and
// score_dot_eight and value_dot_eight after it.

#include "attention/attention_x86.h"

struct Lanes {
  __m256 low, high;
};
constexpr int full_tile = 4;  // uses 8 registers for sums, 2 for a strip and 1 for an operand, of 16
constexpr int tile_strips(int rows) { return rows > 2 ? 1 : 2; }

inline Lanes load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
inline void store(float* x, Lanes v) {
  _mm256_storeu_ps(x, v.low);
  _mm256_storeu_ps(x + 8, v.high);
}
inline Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Lanes multiply(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Lanes maximum(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline __m256 load_eight(const std::uint16_t* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline Lanes load_f16(const std::uint16_t* x) { return {load_eight(x), load_eight(x + 8)}; }
inline Lanes load_i8(const std::int8_t* x) {
  const auto eight = [](const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  };
  return {eight(x), eight(x + 8)};
}

inline float sum_of(Lanes v) {
  const __m256 eight = _mm256_add_ps(v.low, v.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest_of(Lanes v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline __m256 power_of_two_times_eight(__m256 p, __m256 n, __m256 x) {
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
  return _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ));
}
// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(Lanes p, Lanes n, Lanes x) {
  return {power_of_two_times_eight(p.low, n.low, x.low), power_of_two_times_eight(p.high, n.high, x.high)};
}

inline __m256 low_floats(__m256i halves) { return _mm256_cvtph_ps(_mm256_castsi256_si128(halves)); }
inline __m256 high_floats(__m256i halves) { return _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)); }
inline void load_f16_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  __m256i first[8], second[8];
  load_half_columns(row, stride, first, second);
  for (int i = 0; i < 8; ++i) {
    x[i] = {low_floats(first[i]), low_floats(second[i])};
    x[8 + i] = {high_floats(first[i]), high_floats(second[i])};
  }
}
inline void load_i8_columns(const char* row, std::int64_t stride, Lanes (&x)[lanes]) {
  __m128i columns[16];
  load_byte_columns(row, stride, columns);
  const auto eight = [](__m128i v) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)); };
  for (int i = 0; i < lanes; ++i) x[i] = {eight(columns[i]), eight(_mm_unpackhi_epi64(columns[i], columns[i]))};
}
inline Lanes load_f16_column(const char* row, std::int64_t stride) {
  const __m256i halves = gather_halves(row, stride);
  return {low_floats(halves), high_floats(halves)};
}

// --- integers ---------------------------------------------------------------------------------------------------

struct Ints {
  __m256i low, high;
};
constexpr int quad_rows = 4;  // uses 8 registers for sums, 2 for a strip, 2 for its magnitudes and 3 for operands
constexpr int quad_strips(int rows) { return rows > 2 ? 1 : 2; }

inline __m256i load_eight_quads(const char* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
inline Ints load_quads(const char* x) { return {load_eight_quads(x), load_eight_quads(x + 32)}; }
inline Lanes to_floats(Ints x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
inline void store_rounded(std::int8_t* to, Lanes a, Lanes b) {
  const __m256i first = _mm256_packs_epi32(_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high));
  const __m256i second = _mm256_packs_epi32(_mm256_cvtps_epi32(b.low), _mm256_cvtps_epi32(b.high));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs within each half
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}

inline __m256i broadcast_quad(const std::int8_t* x) {
  int quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm256_set1_epi32(quad);
}
inline __m256i score_dot_eight(__m256i sum, __m256i keys, __m256i query);
inline __m256i value_dot_eight(__m256i sum, __m256i values, __m256i weights);
inline Ints score_start(const std::int32_t* start) {
  const __m256i eight = _mm256_set1_epi32(keys_are_unsigned ? *start : 0);
  return {eight, eight};
}
inline Ints score_dot(Ints sum, Ints keys, const std::int8_t* query) {
  const __m256i four = broadcast_quad(query);
  return {score_dot_eight(sum.low, keys.low, four), score_dot_eight(sum.high, keys.high, four)};
}
inline Ints value_dot(Ints sum, Ints values, const std::int8_t* weights) {
  const __m256i four = broadcast_quad(weights);
  return {value_dot_eight(sum.low, values.low, four), value_dot_eight(sum.high, values.high, four)};
}

// Transposes sixteen cells' 32 numbers to quads[8][cell].
inline __attribute__((always_inline)) void transpose_keys(const char* row, std::int64_t stride, char* to) {
  const __m256i flip = _mm256_set1_epi8(keys_are_unsigned ? -128 : 0);
  for (int part = 0; part < 2; ++part) {  // of the 32 numbers
    for (int cell = 0; cell < 16; cell += 8) {
      __m256i x[4], y[4];
      for (int i = 0; i < 4; ++i) {
        const char* first = row + (cell + i) * stride + 16 * part;
        const auto half_row = [](const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(half_row(first)), half_row(first + 4 * stride), 1);
        if (keys_are_unsigned) x[i] = _mm256_xor_si256(x[i], flip);
      }
      for (int i = 0; i < 4; i += 2) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
      }
      for (int i = 0; i < 2; ++i) {
        char* quad = to + (4 * part + 2 * i) * 64 + 4 * cell;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(quad), _mm256_unpacklo_epi64(y[i], y[2 + i]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(quad + 64), _mm256_unpackhi_epi64(y[i], y[2 + i]));
      }
    }
  }
}

// Transposes four cells' 32 numbers to quads of one dimension each: the first sixteen dimensions, then the others.
inline __attribute__((always_inline)) void interleave_values(const char* row, std::int64_t stride, char* first,
                                                             char* second) {
  const auto cell = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i * stride)); };
  const __m256i a = cell(0), b = cell(1), c = cell(2), d = cell(3);
  const __m256i ab[] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
  const __m256i cd[] = {_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d)};
  for (int i = 0; i < 2; ++i) {
    const __m256i low = _mm256_unpacklo_epi16(ab[i], cd[i]), high = _mm256_unpackhi_epi16(ab[i], cd[i]);
    const auto put = [](char* to, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); };
    put(first + 32 * i, _mm256_castsi256_si128(low));
    put(first + 32 * i + 16, _mm256_castsi256_si128(high));
    put(second + 32 * i, _mm256_extracti128_si256(low, 1));
    put(second + 32 * i + 16, _mm256_extracti128_si256(high, 1));
  }
}
