// AVX2 kernels: vectors of eight floats.
#include <immintrin.h>

#include "weights/floats/matmul.h"

namespace specdec::floats {
namespace {

using Vector = __m256;
constexpr int width = 8;
struct Sum {
  Vector part[2];
};
constexpr int tile_columns = 3;
// At most 12 vectors of sums in 16 registers.
constexpr int rows_at_once(int columns) { return columns == 1 ? 4 : columns == 2 ? 3 : 2; }

inline Vector zero() { return _mm256_setzero_ps(); }
inline Vector load(const float* x) { return _mm256_loadu_ps(x); }
inline __m128i load_words(const std::uint16_t* x) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x)); }
inline Vector load_f16(const std::uint16_t* x) { return _mm256_cvtph_ps(load_words(x)); }
inline Vector load_bf16(const std::uint16_t* x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_words(x)), 16));
}
inline Vector fused(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

inline Vector fold(const Sum& s) { return _mm256_add_ps(s.part[0], s.part[1]); }
// Adds the halves of a and those of b.
inline Vector fold_halves(Vector a, Vector b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
inline void store_totals(const Sum& a, const Sum& b, const Sum& c, const Sum& d, float* out) {
  const Vector ab = fold_halves(fold(a), fold(b)), cd = fold_halves(fold(c), fold(d));
  const Vector pairs =
      _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));  // a, a, c, c, b, b, d, d
  const Vector totals = _mm256_add_ps(pairs, _mm256_movehdup_ps(pairs));                // a, -, c, -, b, -, d, -
  const Vector even = _mm256_permute_ps(totals, 0x88);                                  // a, c, -, -, b, d, -, -
  _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(even), _mm256_extractf128_ps(even, 1)));
}

#include "weights/floats/matmul_kernel.h"

}  // namespace

const Kernels kernels_avx2 = {"avx2", cpu::avx2 | cpu::fma | cpu::f16c, tile_columns, matmul};

}  // namespace specdec::floats
