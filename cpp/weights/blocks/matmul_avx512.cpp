// AVX-512 VNNI kernels: 16 rows in a register.
#include <immintrin.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

using Ints = __m512i;
using Floats = __m512;
constexpr int vector_rows = 16;
constexpr int columns_at_once = 8;

SPECDEC_INLINE Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
SPECDEC_INLINE Ints broadcast_ints(std::int32_t x) { return _mm512_set1_epi32(x); }
SPECDEC_INLINE Ints add_products(Ints sum, Ints w, Ints a) { return _mm512_dpbusd_epi32(sum, w, a); }
SPECDEC_INLINE Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
SPECDEC_INLINE void store_floats(float* p, Floats v) { _mm512_storeu_ps(p, v); }
SPECDEC_INLINE Floats broadcast(float x) { return _mm512_set1_ps(x); }
SPECDEC_INLINE Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
SPECDEC_INLINE Floats multiplied(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
SPECDEC_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

#include "weights/blocks/matmul_vnni.h"
#include "weights/blocks/matmul_x86.h"

}  // namespace

const Kernels kernels_avx512_vnni = {"avx512_vnni", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx512f | cpu::avx512_vnni, pack, matmul};

}  // namespace specdec::blocks
