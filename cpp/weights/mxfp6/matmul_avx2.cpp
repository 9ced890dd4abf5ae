// AVX2 kernels.
#include <immintrin.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

SPECDEC_INLINE void add_products(__m256i& sum, __m256i w, __m256i a) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)));
  __asm__("" : "+x"(sum));  // keeps compilers from reordering integer sums, which would need more than 16 registers
}

#include "weights/mxfp6/matmul_ymm.h"

}  // namespace

extern const Kernels kernels_avx2 = {"avx2", cpu::avx2 | cpu::fma, quantize, matmul};

}  // namespace specdec::mxfp6
