// 8 rows in a register: what matmul_x86.h needs from a 256-bit instruction set. Included, inside an anonymous
// namespace, by the instruction set's file.
using Ints = __m256i;
using Codes = __m256i;
using Floats = __m256;
constexpr int vector_rows = 8;
constexpr int columns_at_once = 4;  // times 2 vectors of rows: eight sums in 16 registers
constexpr int columns_with_two_sums = 2;

SPECDEC_INLINE Codes load_codes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
SPECDEC_INLINE void store_codes(void* p, Codes v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
SPECDEC_INLINE Ints load_ints(const std::int32_t* p) { return load_codes(p); }
SPECDEC_INLINE void store_ints(std::int32_t* p, Ints v) { store_codes(p, v); }
SPECDEC_INLINE Codes as_codes(Ints v) { return v; }
SPECDEC_INLINE Ints broadcast_ints(std::int32_t x) { return _mm256_set1_epi32(x); }
SPECDEC_INLINE Codes either(Codes a, Codes b) { return _mm256_or_si256(a, b); }
// Bits `mask` of every byte after a shift to the right (to the left if negative).
SPECDEC_INLINE Codes field(Codes v, int shift, int mask) {
  v = shift > 0 ? _mm256_srli_epi32(v, shift) : _mm256_slli_epi32(v, -shift);
  return _mm256_and_si256(v, _mm256_set1_epi32(mask * 0x01010101));
}
SPECDEC_INLINE Codes flipped(Codes a, Codes b) { return _mm256_xor_si256(a, b); }
SPECDEC_INLINE Codes looked_up(__m128i table, Codes v) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), v);
}
SPECDEC_INLINE Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
SPECDEC_INLINE void store_floats(float* p, Floats v) { _mm256_storeu_ps(p, v); }
SPECDEC_INLINE Floats load_halves(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
SPECDEC_INLINE Floats load_bfloats(const std::uint8_t* p) {
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
SPECDEC_INLINE Ints load_bytes(const std::uint8_t* p) {  // signed
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
SPECDEC_INLINE Ints added(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
SPECDEC_INLINE Ints shifted_up(Ints v) { return _mm256_slli_epi32(v, 16); }
SPECDEC_INLINE Ints by_sign(const std::uint8_t* p, std::int32_t negative, std::int32_t positive) {
  const __m256 a = _mm256_castsi256_ps(broadcast_ints(negative)), b = _mm256_castsi256_ps(broadcast_ints(positive));
  return _mm256_castps_si256(_mm256_blendv_ps(b, a, _mm256_castsi256_ps(load_bytes(p))));
}
SPECDEC_INLINE Ints load_pairs(const std::uint8_t* p) {
  const auto eight = [](const std::uint8_t* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); };
  return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(eight(p), eight(p + tile_rows)));
}
SPECDEC_INLINE Ints in_pairs(Ints low, Ints high) { return _mm256_blend_epi16(low, shifted_up(high), 0xAA); }
SPECDEC_INLINE Ints pairs_added(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
// The low or high int16 of every int32, twice.
SPECDEC_INLINE Ints low_twice(Ints v) { return _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xAA); }
SPECDEC_INLINE Ints high_twice(Ints v) { return _mm256_blend_epi16(v, _mm256_srli_epi32(v, 16), 0x55); }
SPECDEC_INLINE Ints low_products(Ints a, Ints b) { return _mm256_mullo_epi16(a, b); }
SPECDEC_INLINE Ints pair_products(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
SPECDEC_INLINE Floats negative(Floats v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
SPECDEC_INLINE Floats broadcast(float x) { return _mm256_set1_ps(x); }
SPECDEC_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
SPECDEC_INLINE Floats multiplied(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
SPECDEC_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
