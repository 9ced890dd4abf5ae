// Transposes sixteen rows of sixteen halves or bytes before they are converted: half the work of transposing floats.
// Included inside an anonymous namespace by the x86 files.

// Transposes each 128-bit half of eight registers: columns[j] holds element j of rows 0 .. 7.
inline __attribute__((always_inline)) void transpose_halves(const __m256i (&rows)[8], __m256i (&columns)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm256_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    a[4 + i] = _mm256_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    columns[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
    columns[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
    columns[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
    columns[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
}

// first[j], second[j]: elements j (low half) and 8 + j (high half) of rows 0 .. 7, 8 .. 15.
inline __attribute__((always_inline)) void load_half_columns(const char* row, std::int64_t stride, __m256i (&first)[8],
                                                             __m256i (&second)[8]) {
  const auto load_row = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i * stride)); };
  __m256i rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = load_row(i);
  transpose_halves(rows, first);
  for (int i = 0; i < 8; ++i) rows[i] = load_row(8 + i);
  transpose_halves(rows, second);
}

inline void load_byte_columns(const char* row, std::int64_t stride, __m128i (&x)[16]) {
  for (int i = 0; i < 16; ++i) x[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i * stride));
  for (int stage = 0; stage < 4; ++stage) {  // each stage interleaves the first eight with the last eight
    __m128i y[16];
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = _mm_unpacklo_epi8(x[i], x[8 + i]);
      y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[8 + i]);
    }
    for (int i = 0; i < 16; ++i) x[i] = y[i];
  }
}

// The halves at the start of sixteen rows, inserted one by one: loading what was just stored in parts would stall.
inline __attribute__((always_inline)) __m256i gather_halves(const char* row, std::int64_t stride) {
  const auto at = [&](int i) {
    std::uint16_t bits;
    __builtin_memcpy(&bits, row + i * stride, sizeof bits);
    return bits;
  };
  __m128i x[2];
  for (int i = 0; i < 2; ++i, row += 8 * stride) {
    x[i] = _mm_cvtsi32_si128(at(0));
    x[i] = _mm_insert_epi16(x[i], at(1), 1);
    x[i] = _mm_insert_epi16(x[i], at(2), 2);
    x[i] = _mm_insert_epi16(x[i], at(3), 3);
    x[i] = _mm_insert_epi16(x[i], at(4), 4);
    x[i] = _mm_insert_epi16(x[i], at(5), 5);
    x[i] = _mm_insert_epi16(x[i], at(6), 6);
    x[i] = _mm_insert_epi16(x[i], at(7), 7);
  }
  return _mm256_set_m128i(x[1], x[0]);
}

inline float half(const char* x) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return _cvtsh_ss(bits);
}
