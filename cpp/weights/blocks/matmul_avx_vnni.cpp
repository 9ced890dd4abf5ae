// AVX-VNNI kernels: Intel cores without AVX-512 since Alder Lake, and AMD's since Zen 5.
#include <immintrin.h>

#include "weights/blocks/grids.h"
#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

#include "weights/blocks/vectors_256.h"

constexpr int repeats_in_registers = 2;
constexpr int slow_repeats_in_registers = 1;

SPECDEC_INLINE Ints add_products(Ints sum, Ints w, Ints a) { return _mm256_dpbusd_avx_epi32(sum, w, a); }

template <Type type>
constexpr bool signed_bytes = false;

#include "weights/blocks/dot_products.h"
#include "weights/blocks/dot_products_vnni.h"
#include "weights/blocks/matmul_x86.h"

}  // namespace

const Kernels kernels_avx_vnni = {"avx_vnni", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx_vnni, pack, matmul};

}  // namespace specdec::blocks
