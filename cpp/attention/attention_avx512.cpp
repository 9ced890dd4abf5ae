#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

using Lanes = __m512;
constexpr int block_vectors = 4;  // 16 sums, 4 operands, of 32 registers
template <int N>
struct Count { static constexpr int value = N; };

inline Lanes load(const float* x) { return _mm512_loadu_ps(x); }
inline void store(float* x, Lanes v) { _mm512_storeu_ps(x, v); }
inline Lanes broadcast(float x) { return _mm512_set1_ps(x); }
inline Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes multiply(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes maximum(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
inline Lanes load_f16(const std::uint16_t* x) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))); }
// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(Lanes p, Lanes n, Lanes x) {
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ), _mm512_castsi512_ps(bits));
}

#include "attention/attention_kernel.h"

}  // namespace

void attend_avx512(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept {
  attend(problem, row_begin, row_end, scratch);
}

}  // namespace specdec::attention
