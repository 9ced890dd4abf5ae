// AVX-VNNI kernels: Intel cores without AVX-512 since Alder Lake, and AMD's since Zen 5.
#include <immintrin.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

SPECDEC_INLINE void add_products(__m256i& sum, __m256i w, __m256i a) { sum = _mm256_dpbusd_avx_epi32(sum, w, a); }

#include "weights/mxfp6/matmul_ymm.h"

}  // namespace

extern const Kernels kernels_avx_vnni = {"avx_vnni", cpu::avx2 | cpu::fma | cpu::avx_vnni, quantize, matmul};

}  // namespace specdec::mxfp6
