// Transposes sixteen rows of sixteen halves or bytes before they are converted: half the work of transposing floats.
// Included inside an anonymous namespace by the x86 files, which define keys_are_unsigned:
// whether keys in quads get 128 added, as VNNI's first operand.

// Eight registers, each 128-bit half apart: columns[j] holds element j of rows 0 .. 7.
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
  for (int stage = 0; stage < 4; ++stage) {  // each interleaves the first eight with the last
    __m128i y[16];
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = _mm_unpacklo_epi8(x[i], x[8 + i]);
      y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[8 + i]);
    }
    for (int i = 0; i < 16; ++i) x[i] = y[i];
  }
}

// The halves at the start of sixteen rows.
inline __m256i gather_halves(const char* row, std::int64_t stride) {
  alignas(32) std::uint16_t x[16];
  for (int i = 0; i < 16; ++i) __builtin_memcpy(x + i, row + i * stride, 2);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(x));
}

inline float half(const char* x) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return _cvtsh_ss(bits);
}

// Sixteen cells' 32 numbers to quads[8][cell].
inline __attribute__((always_inline)) void transpose_keys(const char* row, std::int64_t stride, char* to) {
  const __m256i flip = _mm256_set1_epi8(keys_are_unsigned ? -128 : 0);
  for (int part = 0; part < 2; ++part) {  // of the 32 numbers
    for (int cell = 0; cell < 16; cell += 8) {
      __m256i x[4], y[4];
      for (int i = 0; i < 4; ++i) {
        const char* first = row + (cell + i) * stride + 16 * part;
        const auto half_row = [](const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(half_row(first)), half_row(first + 4 * stride), 1);
        if (keys_are_unsigned) x[i] = _mm256_xor_si256(x[i], flip);
      }
      for (int i = 0; i < 4; i += 2) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
      }
      for (int i = 0; i < 2; ++i) {
        char* quad = to + (4 * part + 2 * i) * 64 + 4 * cell;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(quad), _mm256_unpacklo_epi64(y[i], y[2 + i]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(quad + 64), _mm256_unpackhi_epi64(y[i], y[2 + i]));
      }
    }
  }
}

// Four cells' 32 numbers to quads of one dimension each: the first sixteen dimensions and the others.
inline __attribute__((always_inline)) void interleave_values(const char* row, std::int64_t stride, char* first,
                                                             char* second) {
  const auto cell = [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i * stride)); };
  const __m256i a = cell(0), b = cell(1), c = cell(2), d = cell(3);
  const __m256i ab[] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
  const __m256i cd[] = {_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d)};
  for (int i = 0; i < 2; ++i) {
    const __m256i low = _mm256_unpacklo_epi16(ab[i], cd[i]), high = _mm256_unpackhi_epi16(ab[i], cd[i]);
    const auto put = [](char* to, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x); };
    put(first + 32 * i, _mm256_castsi256_si128(low));
    put(first + 32 * i + 16, _mm256_castsi256_si128(high));
    put(second + 32 * i, _mm256_extracti128_si256(low, 1));
    put(second + 32 * i + 16, _mm256_extracti128_si256(high, 1));
  }
}
