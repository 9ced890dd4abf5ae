// AVX-512 kernels: vectors of sixteen floats.
#include <immintrin.h>

#include "weights/floats/matmul.h"

namespace specdec::floats {
namespace {

using Vector = __m512;
constexpr int width = 16;
struct Sum {
  Vector part[1];
};
constexpr int tile_columns = 8;
// At most 24 sums of 32 registers.
constexpr int rows_at_once(int columns) { return columns <= 3 ? 8 : columns == 4 ? 6 : columns <= 6 ? 4 : 3; }

inline Vector zero() { return _mm512_setzero_ps(); }
inline Vector load(const float* x) { return _mm512_loadu_ps(x); }
inline __m256i load_words(const std::uint16_t* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
inline Vector load_f16(const std::uint16_t* x) { return _mm512_cvtph_ps(load_words(x)); }
inline Vector load_bf16(const std::uint16_t* x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_words(x)), 16));
}
inline Vector fused(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

// Adds the halves of a and those of b.
inline Vector fold_halves(Vector a, Vector b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}
inline void store_totals(const Sum& a, const Sum& b, const Sum& c, const Sum& d, float* out) {
  const Vector ab = fold_halves(a.part[0], b.part[0]), cd = fold_halves(c.part[0], d.part[0]);
  const Vector quarters =
      _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));  // a, b, c, d
  const Vector pairs = _mm512_add_ps(quarters, _mm512_permute_ps(quarters, 0x4E));
  const Vector totals = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0xB1));  // four times each
  const __m512i every_fourth = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(every_fourth, totals)));
}

#include "weights/floats/matmul_kernel.h"

}  // namespace

const Kernels kernels_avx512 = {"avx512", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx512f | cpu::avx512vl, tile_columns,
                                matmul};

}  // namespace specdec::floats
