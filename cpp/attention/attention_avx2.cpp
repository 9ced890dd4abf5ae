// AVX2 kernels.
#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

constexpr bool keys_are_unsigned = false;
#include "attention/attention_ymm.h"

inline __m256i add_pairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// |keys| * (+-query): at most 2 * 128 * 127 per pair, which int16 holds.
inline __m256i score_dot_eight(__m256i sum, __m256i keys, __m256i query) {
  return add_pairs(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(keys), _mm256_sign_epi8(query, keys)));
}
inline __m256i value_dot_eight(__m256i sum, __m256i values, __m256i weights) {
  return add_pairs(sum, _mm256_maddubs_epi16(weights, values));
}

#include "attention/attention_int8.h"

}  // namespace

const Kernels kernels_avx2 = {"avx2", cpu::avx2 | cpu::fma | cpu::f16c, read, merge, finish};

}  // namespace specdec::attention
