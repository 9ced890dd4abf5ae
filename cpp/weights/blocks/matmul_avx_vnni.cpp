// AVX-VNNI kernels: Intel cores without AVX-512 since Alder Lake, and AMD's since Zen 5.
#include <immintrin.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

using Ints = __m256i;
using Floats = __m256;
constexpr int vector_rows = 8;
constexpr int columns_at_once = 4;  // times 2 vectors of rows: eight sums

SPECDEC_INLINE Ints load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
SPECDEC_INLINE Ints broadcast_ints(std::int32_t x) { return _mm256_set1_epi32(x); }
SPECDEC_INLINE Ints add_products(Ints sum, Ints w, Ints a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }
SPECDEC_INLINE Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
SPECDEC_INLINE void store_floats(float* p, Floats v) { _mm256_storeu_ps(p, v); }
SPECDEC_INLINE Floats broadcast(float x) { return _mm256_set1_ps(x); }
SPECDEC_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
SPECDEC_INLINE Floats multiplied(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
SPECDEC_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

#include "weights/blocks/matmul_vnni.h"
#include "weights/blocks/matmul_x86.h"

}  // namespace

const Kernels kernels_avx_vnni = {"avx_vnni", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx_vnni, pack, matmul};

}  // namespace specdec::blocks
