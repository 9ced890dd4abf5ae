// AVX-512 VNNI with 256-bit registers, for cores without VBMI such as Cascade Lake. The AVX-VNNI code with EVEX
// encoding.
#include <immintrin.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

SPECDEC_INLINE void add_products(__m256i& sum, __m256i w, __m256i a) { sum = _mm256_dpbusd_epi32(sum, w, a); }

#include "weights/mxfp6/matmul_ymm.h"

}  // namespace

extern const Kernels kernels_avx512vl_vnni = {
    "avx512vl_vnni", cpu::avx2 | cpu::fma | cpu::avx512f | cpu::avx512vl | cpu::avx512_vnni, quantize, matmul};

}  // namespace specdec::mxfp6
