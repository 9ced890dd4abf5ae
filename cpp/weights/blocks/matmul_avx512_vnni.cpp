// AVX-512 VNNI kernels: 16 rows in a register.
#include <immintrin.h>

#include "weights/blocks/grids.h"
#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

using Ints = __m512i;
using Codes = __m512i;
using Floats = __m512;
constexpr int vector_rows = 16;
constexpr int columns_at_once = 8;
constexpr int columns_with_two_sums = 8;
constexpr int repeats_in_registers = 2;
constexpr int slow_repeats_in_registers = 2;

SPECDEC_INLINE Codes load_codes(const void* p) { return _mm512_loadu_si512(p); }
SPECDEC_INLINE void store_codes(void* p, Codes v) { _mm512_storeu_si512(p, v); }
SPECDEC_INLINE Ints load_ints(const std::int32_t* p) { return load_codes(p); }
SPECDEC_INLINE void store_ints(std::int32_t* p, Ints v) { store_codes(p, v); }
SPECDEC_INLINE Codes as_codes(Ints v) { return v; }
SPECDEC_INLINE Ints broadcast_ints(std::int32_t x) { return _mm512_set1_epi32(x); }
SPECDEC_INLINE Codes either(Codes a, Codes b) { return _mm512_or_si512(a, b); }
// Bits `mask` of every byte after a shift to the right (to the left if negative).
SPECDEC_INLINE Codes field(Codes v, int shift, int mask) {
  v = shift > 0 ? _mm512_srli_epi32(v, static_cast<unsigned>(shift))
                : _mm512_slli_epi32(v, static_cast<unsigned>(-shift));
  return _mm512_and_si512(v, _mm512_set1_epi32(mask * 0x01010101));
}
SPECDEC_INLINE Codes flipped(Codes a, Codes b) { return _mm512_xor_si512(a, b); }
SPECDEC_INLINE Codes looked_up(__m128i table, Codes v) { return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), v); }
SPECDEC_INLINE Ints add_products(Ints sum, Ints w, Ints a) { return _mm512_dpbusd_epi32(sum, w, a); }
SPECDEC_INLINE Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
SPECDEC_INLINE void store_floats(float* p, Floats v) { _mm512_storeu_ps(p, v); }
SPECDEC_INLINE Floats load_halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
SPECDEC_INLINE Floats load_bfloats(const std::uint8_t* p) {
  const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
SPECDEC_INLINE Ints load_bytes(const std::uint8_t* p) {  // signed
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[maybe_unused]] SPECDEC_INLINE Ints added(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
SPECDEC_INLINE Ints shifted_up(Ints v) { return _mm512_slli_epi32(v, 16); }
SPECDEC_INLINE Ints by_sign(const std::uint8_t* p, std::int32_t negative, std::int32_t positive) {
  const __m512i bytes = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const auto signs = static_cast<__mmask16>(_mm512_movepi8_mask(bytes));
  return _mm512_mask_blend_epi32(signs, broadcast_ints(positive), broadcast_ints(negative));
}
SPECDEC_INLINE Ints in_pairs(Ints low, Ints high) { return _mm512_mask_blend_epi16(0xAAAAAAAA, low, shifted_up(high)); }
SPECDEC_INLINE Ints load_pairs(const std::uint8_t* p) { return in_pairs(load_bytes(p), load_bytes(p + tile_rows)); }
SPECDEC_INLINE Ints pairs_added(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
SPECDEC_INLINE Ints low_twice(Ints v) { return in_pairs(v, v); }
SPECDEC_INLINE Ints high_twice(Ints v) { return _mm512_mask_blend_epi16(0x55555555, v, _mm512_srli_epi32(v, 16)); }
SPECDEC_INLINE Ints low_products(Ints a, Ints b) { return _mm512_mullo_epi16(a, b); }
SPECDEC_INLINE Ints pair_products(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
SPECDEC_INLINE Floats negative(Floats v) { return _mm512_mul_ps(v, _mm512_set1_ps(-1.0f)); }
SPECDEC_INLINE Floats broadcast(float x) { return _mm512_set1_ps(x); }
SPECDEC_INLINE Floats to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
SPECDEC_INLINE Floats multiplied(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
SPECDEC_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

template <Type type>
constexpr bool signed_bytes = false;

#include "weights/blocks/dot_products.h"
#include "weights/blocks/dot_products_vnni.h"
#include "weights/blocks/matmul_x86.h"

}  // namespace

const Kernels kernels_avx512_vnni = {
    "avx512_vnni", cpu::avx2 | cpu::fma | cpu::f16c | cpu::avx512f | cpu::avx512bw | cpu::avx512_vnni, pack, matmul};

}  // namespace specdec::blocks
