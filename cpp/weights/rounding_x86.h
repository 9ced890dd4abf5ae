// rounding.h for 256-bit registers; included inside an anonymous namespace by files that are compiled for AVX2 or
// better.

SPECDEC_INLINE std::int32_t largest_lane(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(m);
}
SPECDEC_INLINE std::int32_t sum_of_lanes(__m256i v) {
  __m128i m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  m = _mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(m);
}

struct RoundedBlock {
  float scale;
  __m256i sums[2];  // lanes that add up to the sum of the codes of each half
};

// x [32] -> codes: 32 int8.
SPECDEC_INLINE RoundedBlock round_block_x86(const float* x, void* codes) {
  const __m256i magnitude_mask = _mm256_set1_epi32(0x7fffffff);
  __m256 value[4];
  __m256i largest_lanes = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    value[i] = _mm256_loadu_ps(x + 8 * i);
    // As integers, magnitudes order NaN and infinity above every finite value.
    largest_lanes = _mm256_max_epi32(largest_lanes, _mm256_and_si256(_mm256_castps_si256(value[i]), magnitude_mask));
  }
  const std::int32_t largest_bits = largest_lane(largest_lanes);
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof largest);
  const bool is_finite = largest_bits < 0x7f800000;
  const bool is_zero = !is_finite || largest < tiny_block;
  const __m256 inverse = _mm256_set1_ps(is_zero ? 0.0f : 127.0f / largest);
  const __m256i keep = _mm256_set1_epi32(is_zero ? 0 : -1);
  __m256i rounded[4];
  for (int i = 0; i < 4; ++i) rounded[i] = _mm256_and_si256(keep, _mm256_cvtps_epi32(_mm256_mul_ps(value[i], inverse)));
  // Packing works within 128-bit lanes: afterwards the dwords hold values 0-3, 8-11, 16-19, 24-27, 4-7, 12-15, ...
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), _mm256_packs_epi32(rounded[2], rounded[3]));
  _mm256_storeu_si256(static_cast<__m256i*>(codes),
                      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  return {!is_finite ? __builtin_nanf("")
          : is_zero  ? 0.0f
                     : largest / 127.0f,
          {_mm256_add_epi32(rounded[0], rounded[1]), _mm256_add_epi32(rounded[2], rounded[3])}};
}
