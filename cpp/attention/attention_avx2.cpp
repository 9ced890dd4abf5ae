#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

struct Lanes {
  __m256 low, high;
};
constexpr int block_vectors = 1;  // 8 sums, 2 operands, of 16 registers
template <int N>
struct Count { static constexpr int value = N; };

inline Lanes load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
inline void store(float* x, Lanes v) {
  _mm256_storeu_ps(x, v.low);
  _mm256_storeu_ps(x + 8, v.high);
}
inline Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Lanes multiply(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)}; }
inline Lanes maximum(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline __m256 load_eight(const std::uint16_t* x) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))); }
inline Lanes load_f16(const std::uint16_t* x) { return {load_eight(x), load_eight(x + 8)}; }
inline __m256 power_of_two_times_eight(__m256 p, __m256 n, __m256 x) {
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
  return _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ));
}
// p * 2^n; 0 where x is below -87.
inline Lanes power_of_two_times(Lanes p, Lanes n, Lanes x) {
  return {power_of_two_times_eight(p.low, n.low, x.low), power_of_two_times_eight(p.high, n.high, x.high)};
}

#include "attention/attention_kernel.h"

}  // namespace

void attend_avx2(const Problem& problem, std::int64_t row_begin, std::int64_t row_end, float* scratch) noexcept {
  attend(problem, row_begin, row_end, scratch);
}

}  // namespace specdec::attention
