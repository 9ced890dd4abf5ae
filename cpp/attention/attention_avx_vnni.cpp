// AVX-VNNI kernels: Intel cores without AVX-512 since Alder Lake, and AMD's since Zen 5.
#include <immintrin.h>

#include "attention/attention.h"

namespace specdec::attention {
namespace {

constexpr bool keys_are_unsigned = true;
#include "attention/attention_ymm.h"

inline __m256i score_dot_eight(__m256i sum, __m256i keys, __m256i query) {
  return _mm256_dpbusd_avx_epi32(sum, keys, query);
}
inline __m256i value_dot_eight(__m256i sum, __m256i values, __m256i weights) {
  return _mm256_dpbusd_avx_epi32(sum, weights, values);
}

#include "attention/attention_int8.h"

}  // namespace

const Kernels kernels_avx_vnni = {"avx_vnni", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx_vnni, read, merge, finish};

}  // namespace specdec::attention
