// Shared by the x86 kernels: decoding and packing in 256-bit registers, the products over vectors of any width, and the
// loops of matmul_kernel.h. Included, inside an anonymous namespace, by one file per instruction set, which defines
//   what vectors_256.h defines   vectors of one number per row, or of four codes per row
//   signed_bytes<type>           whether a tile holds signed codes (otherwise code - lowest, unsigned)
//   group_sums, scaled_sums      as matmul_kernel.h
//
// Rows are transposed while they are packed: 16 bytes of 8 rows become four registers of 4 bytes per row. Unpacking
// bits works on bytes and so commutes with the transposition.

SPECDEC_INLINE __m256i bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }

// Four registers of 4 neighbouring bytes of 8 rows.
struct Quad {
  __m256i part[4];
};

// a[r]: 16 bytes of rows r and r + 4.
SPECDEC_INLINE Quad transposed(const __m256i (&a)[4]) {
  const __m256i low01 = _mm256_unpacklo_epi32(a[0], a[1]), high01 = _mm256_unpackhi_epi32(a[0], a[1]);
  const __m256i low23 = _mm256_unpacklo_epi32(a[2], a[3]), high23 = _mm256_unpackhi_epi32(a[2], a[3]);
  return {{_mm256_unpacklo_epi64(low01, low23), _mm256_unpackhi_epi64(low01, low23),
           _mm256_unpacklo_epi64(high01, high23), _mm256_unpackhi_epi64(high01, high23)}};
}

// 8 rows of a matrix, from some byte on, and an equal part of what comes next in memory.
struct Rows {
  const std::uint8_t* at;
  std::int64_t stride;
  const std::uint8_t* ahead;
  SPECDEC_INLINE Rows operator+(std::int64_t offset) const { return {at + offset, stride, ahead + 8 * offset}; }
};

SPECDEC_INLINE __m128i load16(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
SPECDEC_INLINE __m256i pair(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
SPECDEC_INLINE Quad load(Rows rows) {
  // Sixteen rows are more streams than the hardware prefetches. Prefetching them in order, a few lines at a time, into
  // L2 makes products with one column twice as fast.
  __builtin_prefetch(rows.ahead, 0, 2);
  __builtin_prefetch(rows.ahead + 64, 0, 2);
  __m256i a[4];
  for (int r = 0; r < 4; ++r) a[r] = pair(load16(rows.at + r * rows.stride), load16(rows.at + (r + 4) * rows.stride));
  return transposed(a);
}

// The same of 16 columns whose bit i is bit `first` + i of 4 bytes: `value` where it is set.
template <int first, int value = 16>
SPECDEC_INLINE Quad load_bits(Rows rows) {
  constexpr char low = first / 8, high = first / 8 + 1;
  const __m256i spread = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(low, low, low, low, low, low, low, low, high, high, high, high, high, high, high, high));
  const __m256i mask = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  __m256i a[4];
  for (int r = 0; r < 4; ++r) {
    const __m256i bits =
        pair(_mm_loadu_si32(rows.at + r * rows.stride), _mm_loadu_si32(rows.at + (r + 4) * rows.stride));
    const __m256i chosen = _mm256_and_si256(_mm256_shuffle_epi8(bits, spread), mask);
    a[r] = _mm256_and_si256(_mm256_cmpeq_epi8(chosen, mask), bytes(value));
  }
  return transposed(a);
}

// Bits `mask` of every byte after a shift by `right` (negative: left) that may carry in garbage elsewhere.
template <int right>
SPECDEC_INLINE __m256i bits(__m256i v, int mask) {
  if constexpr (right > 0) v = _mm256_srli_epi16(v, right);
  if constexpr (right < 0) v = _mm256_slli_epi16(v, -right);
  return _mm256_and_si256(v, bytes(mask));
}
SPECDEC_INLINE __m256i low_half(__m256i v) { return bits<0>(v, 15); }
SPECDEC_INLINE __m256i high_half(__m256i v) { return bits<4>(v, 15); }

// The destination of the codes of 8 rows of a block.
struct Place {
  std::uint8_t* at;
  SPECDEC_INLINE void store(int column, __m256i v) const {  // of 4 columns
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + column * tile_rows), v);
  }
};

// Codes of a type with a table; if unsigned, minus the lowest code.
template <Type type>
SPECDEC_INLINE __m128i code_table() {
  constexpr int add = signed_bytes<type> ? 0 : -format_of(type).lowest;
  const auto entry = [](int i) { return static_cast<char>(table_of(type)[i] + add); };
  return _mm_setr_epi8(entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6), entry(7), entry(8),
                       entry(9), entry(10), entry(11), entry(12), entry(13), entry(14), entry(15));
}
template <Type type>
SPECDEC_INLINE __m256i table_codes(__m256i nibbles) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(code_table<type>()), nibbles);
}

// 32 columns from 16 bytes: 0-15 in the low halves of bytes.
template <class Decode>
SPECDEC_INLINE void store_nibbles(const Quad& q, Place to, Decode decode) {
  for (int g = 0; g < 4; ++g) {
    to.store(4 * g, decode(low_half(q.part[g]), g));
    to.store(16 + 4 * g, decode(high_half(q.part[g]), 4 + g));
  }
}

// One part of 16 columns of Q5_K: bits of two groups of 32 columns side by side.
template <int c>
SPECDEC_INLINE void store_q5_k(const Quad& low, const Quad& high, Place to) {
  for (int g = 0; g < 4; ++g) {
    to.store(64 * c + 4 * g, _mm256_or_si256(low_half(low.part[g]), bits<2 * c - 4>(high.part[g], 16)));
    to.store(64 * c + 32 + 4 * g, _mm256_or_si256(high_half(low.part[g]), bits<2 * c + 1 - 4>(high.part[g], 16)));
  }
}
// Two parts of Q3_K: bits 4 n and on of the third bits.
template <int n>
SPECDEC_INLINE void store_q3_k(const Quad& low, const Quad& high, Place to) {
  for (int g = 0; g < 4; ++g) {
    const __m256i l = low.part[g], h = high.part[g];
    to.store(4 * g, _mm256_or_si256(bits<0>(l, 3), bits<4 * n - 2>(h, 4)));
    to.store(32 + 4 * g, _mm256_or_si256(bits<2>(l, 3), bits<4 * n - 1>(h, 4)));
    to.store(64 + 4 * g, _mm256_or_si256(bits<4>(l, 3), bits<4 * n>(h, 4)));
    to.store(96 + 4 * g, _mm256_or_si256(bits<6>(l, 3), bits<4 * n + 1>(h, 4)));
  }
}

// Spreads a lane's low byte, two bits to a byte.
SPECDEC_INLINE __m256i spread_pairs(__m256i v) {
  v = _mm256_and_si256(v, _mm256_set1_epi32(0xFF));
  v = _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi32(v, 12)), _mm256_set1_epi32(0x000F000F));
  return _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi32(v, 6)), bytes(3));
}

// Four bytes of 8 rows.
SPECDEC_INLINE __m256i row_ints(Rows rows, std::int64_t offset) {
  const auto at = [&](int r) {
    std::int32_t four;
    __builtin_memcpy(&four, rows.at + r * rows.stride + offset, sizeof four);
    return four;
  };
  return _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
}

// The first digits to the base 3 of bytes, `step` columns from each to the next: the digit is byte * 3 / 256.
SPECDEC_INLINE void store_ternary(__m256i v, int digits, int step, int column, Place to) {
  const auto not_below = [&](int least) { return _mm256_cmpeq_epi8(_mm256_max_epu8(v, bytes(least)), v); };
  for (int n = 0; n < digits; ++n) {
    const __m256i minus_digit = _mm256_add_epi8(not_below(86), not_below(171));
    to.store(column + n * step, _mm256_sub_epi8(_mm256_setzero_si256(), minus_digit));
    v = _mm256_add_epi8(v, _mm256_add_epi8(v, v));
  }
}

template <Type type>
SPECDEC_INLINE __m256i finished_grid(__m256i v) {
  if constexpr (has_table(type)) return table_codes<type>(v);
  else if constexpr (format_of(type).step == 2) return _mm256_add_epi8(v, v);
  else return v;
}

template <Type type>
SPECDEC_INLINE std::uint64_t whole_grid_codes(const Grids& entries, const std::uint8_t* block, int part, int eight) {
  const std::uint64_t codes = grid_codes<type>(entries, block, part, eight);
  if constexpr (!has_eighths(type)) return codes;
  return codes << 3 | (grid_offset(block, part) < 0 ? 0x0202020202020202u : 0u);  // 8 code +- 1 - lowest_eighth
}

// Looks up entries of grids row by row, then transposes.
template <Type type>
SPECDEC_INLINE void decode_grid(Rows rows, Place to) {
  constexpr int columns = format_of(type).columns;
  const Grids& entries = grids();
  std::uint64_t codes[8][columns / 8];
  for (int r = 0; r < 8; ++r) {
    const std::uint8_t* block = rows.at + r * rows.stride;
    for (int part = 0; part < columns / 32; ++part) {
#pragma GCC unroll 4
      for (int eight = 0; eight < 4; ++eight)
        codes[r][4 * part + eight] = whole_grid_codes<type>(entries, block, part, eight);
    }
  }
  const Rows decoded{reinterpret_cast<const std::uint8_t*>(codes), columns, rows.ahead};
  for (int column = 0; column < columns; column += 16) {
    const Quad q = load({decoded.at + column, columns, rows.ahead + 8 * column * format_of(type).bytes / columns});
    for (int g = 0; g < 4; ++g) to.store(column + 4 * g, finished_grid<type>(q.part[g]));
  }
}

template <Type type>
SPECDEC_INLINE void decode_codes(Rows rows, Place to) {
  constexpr bool is_signed = signed_bytes<type>;
  if constexpr (type == Type::q1_0) {
    constexpr int step = format_of(type).step;
    for (int part = 0; part < 4; ++part) {
      const Quad low = load_bits<0, step>(rows + (2 + 4 * part)), high = load_bits<16, step>(rows + (2 + 4 * part));
      for (int g = 0; g < 4; ++g) {
        to.store(32 * part + 4 * g, low.part[g]);
        to.store(32 * part + 16 + 4 * g, high.part[g]);
      }
    }
  } else if constexpr (type == Type::q4_0) {
    store_nibbles(load(rows + 2), to, [](__m256i v, int) { return v; });
  } else if constexpr (type == Type::q4_1) {
    store_nibbles(load(rows + 4), to, [](__m256i v, int) { return v; });
  } else if constexpr (type == Type::q5_0 || type == Type::q5_1) {
    constexpr int at = type == Type::q5_0 ? 2 : 4;
    const Quad high[2] = {load_bits<0>(rows + at), load_bits<16>(rows + at)};
    store_nibbles(load(rows + (at + 4)), to,
                  [&](__m256i v, int g) { return _mm256_or_si256(v, high[g / 4].part[g % 4]); });
  } else if constexpr (type == Type::q8_0) {
    for (int half = 0; half < 2; ++half) {
      const Quad q = load(rows + (2 + 16 * half));
      for (int g = 0; g < 4; ++g)
        to.store(16 * half + 4 * g, is_signed ? q.part[g] : _mm256_xor_si256(q.part[g], bytes(0x80)));
    }
  } else if constexpr (type == Type::iq4_nl) {
    store_nibbles(load(rows + 2), to, [](__m256i v, int) { return table_codes<type>(v); });
  } else if constexpr (type == Type::iq4_xs) {
    for (int part = 0; part < 8; ++part) {
      const Place part_codes{to.at + 32 * part * tile_rows};
      store_nibbles(load(rows + (8 + 16 * part)), part_codes, [](__m256i v, int) { return table_codes<type>(v); });
    }
  } else if constexpr (type == Type::mxfp4) {
    store_nibbles(load(rows + 1), to, [](__m256i v, int) { return table_codes<type>(v); });
  } else if constexpr (type == Type::nvfp4) {
    for (int part = 0; part < 2; ++part) {
      const Quad q = load(rows + (4 + 16 * part));  // 8 bytes of a group, then of the next
      for (int g = 0; g < 4; ++g) {
        const int column = 32 * part + 16 * (g / 2) + 4 * (g % 2);
        to.store(column, table_codes<type>(low_half(q.part[g])));
        to.store(column + 8, table_codes<type>(high_half(q.part[g])));
      }
    }
  } else if constexpr (type == Type::q4_k) {
    for (int c = 0; c < 4; ++c) {
      for (int half = 0; half < 2; ++half) {
        const Quad q = load(rows + (16 + 32 * c + 16 * half));
        for (int g = 0; g < 4; ++g) {
          to.store(64 * c + 16 * half + 4 * g, low_half(q.part[g]));
          to.store(64 * c + 32 + 16 * half + 4 * g, high_half(q.part[g]));
        }
      }
    }
  } else if constexpr (type == Type::q5_k) {
    for (int half = 0; half < 2; ++half) {
      const Quad high = load(rows + (16 + 16 * half));
      const Rows low = rows + (48 + 16 * half);
      const Place half_codes{to.at + 16 * half * tile_rows};
      store_q5_k<0>(load(low), high, half_codes);
      store_q5_k<1>(load(low + 32), high, half_codes);
      store_q5_k<2>(load(low + 64), high, half_codes);
      store_q5_k<3>(load(low + 96), high, half_codes);
    }
  } else if constexpr (type == Type::q6_k) {
    for (int n = 0; n < 2; ++n) {
      for (int half = 0; half < 2; ++half) {
        const Quad a = load(rows + (64 * n + 16 * half)), b = load(rows + (64 * n + 32 + 16 * half));
        const Quad high = load(rows + (128 + 32 * n + 16 * half));
        for (int g = 0; g < 4; ++g) {
          const int column = 128 * n + 16 * half + 4 * g;
          to.store(column, _mm256_or_si256(low_half(a.part[g]), bits<-4>(high.part[g], 48)));
          to.store(column + 32, _mm256_or_si256(low_half(b.part[g]), bits<-2>(high.part[g], 48)));
          to.store(column + 64, _mm256_or_si256(high_half(a.part[g]), bits<0>(high.part[g], 48)));
          to.store(column + 96, _mm256_or_si256(high_half(b.part[g]), bits<2>(high.part[g], 48)));
        }
      }
    }
  } else if constexpr (type == Type::q3_k) {
    for (int half = 0; half < 2; ++half) {
      const Quad high = load(rows + 16 * half);
      store_q3_k<0>(load(rows + (32 + 16 * half)), high, {to.at + 16 * half * tile_rows});
      store_q3_k<1>(load(rows + (64 + 16 * half)), high, {to.at + (128 + 16 * half) * tile_rows});
    }
  } else if constexpr (type == Type::q2_k || type == Type::tq2_0) {
    constexpr int at = type == Type::q2_k ? 16 : 0;
    for (int n = 0; n < 2; ++n) {
      for (int half = 0; half < 2; ++half) {
        const Quad q = load(rows + (at + 32 * n + 16 * half));
        for (int g = 0; g < 4; ++g) {
          const int column = 128 * n + 16 * half + 4 * g;
          to.store(column, bits<0>(q.part[g], 3));
          to.store(column + 32, bits<2>(q.part[g], 3));
          to.store(column + 64, bits<4>(q.part[g], 3));
          to.store(column + 96, bits<6>(q.part[g], 3));
        }
      }
    }
  } else if constexpr (type == Type::q2_0) {
    const Quad q = load(rows + 2);
    for (int g = 0; g < 4; ++g) {
      for (int i = 0; i < 4; ++i) to.store(16 * g + 4 * i, spread_pairs(_mm256_srli_epi32(q.part[g], 8 * i)));
    }
  } else if constexpr (type == Type::tq1_0) {
    for (int third = 0; third < 3; ++third) {
      const Quad q = load(rows + 16 * third);
      for (int g = 0; g < 4; ++g) {
        const int column = (third < 2 ? 16 * third : 160) + 4 * g;
        store_ternary(q.part[g], 5, third < 2 ? 32 : 16, column, to);
      }
    }
    store_ternary(row_ints(rows, 48), 4, 4, 240, to);
  } else if constexpr (has_grid(type)) {
    decode_grid<type>(rows, to);
  }
}

// --- scales -----------------------------------------------------------------------------------------------------

// An F16 number of 8 rows.
SPECDEC_INLINE __m256 row_halves(Rows rows) {
  const auto at = [&](int r) {
    std::uint16_t h;
    __builtin_memcpy(&h, rows.at + r * rows.stride, sizeof h);
    return static_cast<short>(h);
  };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}
// From the low 16 bits of every lane.
SPECDEC_INLINE __m256 low_halves(__m256i v) {
  const __m256i words = _mm256_and_si256(v, _mm256_set1_epi32(0xFFFF));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
SPECDEC_INLINE __m256 high_halves(__m256i v) { return low_halves(_mm256_srli_epi32(v, 16)); }
SPECDEC_INLINE __m256 negated(__m256 v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }

// The destination of the scales or offsets of 8 rows of a block: [group][16].
struct Scales {
  float* at;
  SPECDEC_INLINE void store(int group, __m256 v) const { _mm256_storeu_ps(at + group * tile_rows, v); }
  // unit * byte for the four groups in a lane's bytes.
  SPECDEC_INLINE void store_four(int group, __m256i v, __m256 unit) const {
    const __m256i mask = _mm256_set1_epi32(255);
    store_products(group, _mm256_and_si256(v, mask), unit);
    store_products(group + 1, _mm256_and_si256(_mm256_srli_epi32(v, 8), mask), unit);
    store_products(group + 2, _mm256_and_si256(_mm256_srli_epi32(v, 16), mask), unit);
    store_products(group + 3, _mm256_srli_epi32(v, 24), unit);
  }
  SPECDEC_INLINE void store_four_signed(int group, __m256i v, __m256 unit) const {
    store_products(group, _mm256_srai_epi32(_mm256_slli_epi32(v, 24), 24), unit);
    store_products(group + 1, _mm256_srai_epi32(_mm256_slli_epi32(v, 16), 24), unit);
    store_products(group + 2, _mm256_srai_epi32(_mm256_slli_epi32(v, 8), 24), unit);
    store_products(group + 3, _mm256_srai_epi32(v, 24), unit);
  }
  SPECDEC_INLINE void store_products(int group, __m256i integers, __m256 unit) const {
    store(group, _mm256_mul_ps(unit, _mm256_cvtepi32_ps(integers)));
  }
};

// The destination of the scale codes of 8 rows of a block of a type that adds groups: [32 columns][16] pairs.
struct ScaleCodes {
  std::int32_t* at;
  SPECDEC_INLINE void store(int part, __m256i even, __m256i odd) const {
    const __m256i pairs = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + part * tile_rows), pairs);
  }
  // The four groups in a lane's signed bytes.
  SPECDEC_INLINE void store_four(int part, __m256i v) const {
    store(part, _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8));
    v = _mm256_srli_epi32(v, 16);
    store(part + 1, _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8));
  }
};

template <Type type>
SPECDEC_INLINE void decode_scales(Rows rows, Scales scale, Scales offset, ScaleCodes codes) {
  if constexpr (type == Type::q4_1 || type == Type::q5_1) {
    scale.store(0, row_halves(rows));
    offset.store(0, row_halves(rows + 2));
  } else if constexpr (type == Type::mxfp4) {
    const auto at = [&](int r) { return bfloat_of_e8m0(rows.at[r * rows.stride]) << 16; };
    scale.store(0, _mm256_castsi256_ps(_mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))));
  } else if constexpr (type == Type::nvfp4) {
    for (int g = 0; g < 4; ++g) {
      const auto at = [&](int r) { return static_cast<short>(halves_of_ue4m3.half[rows.at[r * rows.stride + g]]); };
      scale.store(g, _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))));
    }
  } else if constexpr (!has_scale_codes(type)) {
    constexpr int at = type == Type::tq1_0 ? 52 : type == Type::tq2_0 ? 64 : 0;
    const __m256 d = row_halves(rows + at);
    for (int g = 0; g < groups_of(type); ++g) scale.store(g, d);
  } else if constexpr (has_grid(type)) {
    const auto d_at = [&](int r) { return static_cast<short>(grid_d<type>(rows.at + r * rows.stride)); };
    const __m256 unit = _mm256_set1_ps(format_of(type).unit);
    const __m128i halves = _mm_setr_epi16(d_at(0), d_at(1), d_at(2), d_at(3), d_at(4), d_at(5), d_at(6), d_at(7));
    const __m256 d = _mm256_mul_ps(_mm256_cvtph_ps(halves), unit);
    const __m256i ones = _mm256_set1_epi32(1);
    const auto odd = [&](__m256i v, int shift, int mask) {
      v = _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi32(mask));
      return _mm256_add_epi32(_mm256_add_epi32(v, v), ones);
    };
    if constexpr (type == Type::iq3_s) {
      const __m256i v = row_ints(rows, 106);
      for (int part = 0; part < 8; ++part) scale.store_products(part, odd(v, 4 * part, 15), d);
    } else if constexpr (type == Type::iq3_xxs) {
      for (int half = 0; half < 2; ++half) {
        const Quad q = load(rows + (66 + 16 * half));
        for (int g = 0; g < 4; ++g) scale.store_products(4 * half + g, odd(q.part[g], 28, 15), d);
      }
    } else if constexpr (type == Type::iq2_xxs) {
      for (int pair = 0; pair < 4; ++pair) {
        const Quad q = load(rows + (2 + 16 * pair));
        for (int i = 0; i < 2; ++i) scale.store_products(2 * pair + i, odd(q.part[2 * i + 1], 28, 15), d);
      }
    } else if constexpr (type == Type::iq2_xs || type == Type::iq2_s) {
      const Quad q = load(rows + (format_of(type).bytes - 16));  // the last 8 bytes
      for (int g = 0; g < 16; ++g) scale.store_products(g, odd(q.part[2 + g / 8], 4 * (g % 8), 15), d);
    } else if constexpr (type == Type::iq1_m) {
      const Quad q = load(rows + 40);  // the last 8 bytes: 4 scales in each two
      const auto code = [&](int g) { return odd(q.part[2 + g / 8], 16 * (g / 4 % 2) + 3 * (g % 4), 7); };
      for (int part = 0; part < 8; ++part) {
        scale.store(part, d);
        codes.store(part, code(2 * part), code(2 * part + 1));
      }
    } else {
      const Quad q = load(rows + 34);
      for (int part = 0; part < 8; ++part) {
        const __m256i v = part % 2 == 0 ? _mm256_slli_epi32(q.part[part / 2], 16) : q.part[part / 2];
        scale.store_products(part, odd(v, 28, 7), d);
      }
    }
  } else if constexpr (type == Type::q4_k || type == Type::q5_k) {
    const Quad q = load(rows);  // d and dmin, then 12 bytes
    const __m256 d = low_halves(q.part[0]), dmin = negated(high_halves(q.part[0]));
    scale.store_four(0, bits<0>(q.part[1], 63), d);
    scale.store_four(4, _mm256_or_si256(low_half(q.part[3]), bits<2>(q.part[1], 48)), d);
    offset.store_four(0, bits<0>(q.part[2], 63), dmin);
    offset.store_four(4, _mm256_or_si256(high_half(q.part[3]), bits<2>(q.part[2], 48)), dmin);
  } else if constexpr (type == Type::q6_k) {
    const Quad q = load(rows + 192);
    const __m256 d = row_halves(rows + 208);
    for (int g = 0; g < 4; ++g) scale.store_four_signed(4 * g, q.part[g], d);
  } else if constexpr (type == Type::q3_k) {
    __m256i a[4];  // the last 16 bytes of the block, of which the first two are codes
    for (int r = 0; r < 4; ++r) {
      a[r] = _mm256_bsrli_epi128(
          pair(load16(rows.at + 94 + r * rows.stride), load16(rows.at + 94 + (r + 4) * rows.stride)), 2);
    }
    const Quad q = transposed(a);
    const __m256 d = low_halves(q.part[3]);
    const __m256i high = q.part[2];
    const auto store = [&](int part, __m256i v) { codes.store_four(part, _mm256_sub_epi8(v, bytes(32))); };
    store(0, _mm256_or_si256(low_half(q.part[0]), bits<-4>(high, 48)));
    store(2, _mm256_or_si256(low_half(q.part[1]), bits<-2>(high, 48)));
    store(4, _mm256_or_si256(high_half(q.part[0]), bits<0>(high, 48)));
    store(6, _mm256_or_si256(high_half(q.part[1]), bits<2>(high, 48)));
    for (int part = 0; part < 8; ++part) scale.store(part, d);
  } else if constexpr (type == Type::q2_k) {
    const Quad q = load(rows);
    const __m256 d = row_halves(rows + 80), dmin = negated(row_halves(rows + 82));
    for (int g = 0; g < 4; ++g) {
      codes.store_four(2 * g, low_half(q.part[g]));
      offset.store_four(4 * g, high_half(q.part[g]), dmin);
    }
    for (int part = 0; part < 8; ++part) scale.store(part, d);
  } else if constexpr (type == Type::iq4_xs) {
    const Quad q = load(rows);  // d, 16 high bits; 32 low bits
    const __m256 d = low_halves(q.part[0]);
    __m256i low = q.part[1], high = _mm256_srli_epi32(q.part[0], 16);
    for (int part = 0; part < 8; ++part, low = _mm256_srli_epi32(low, 4), high = _mm256_srli_epi32(high, 2)) {
      const __m256i code = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                           _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
      scale.store_products(part, _mm256_sub_epi32(code, _mm256_set1_epi32(32)), d);
    }
  }
}

template <Type type>
void decode_tile(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t blocks, const std::uint8_t* ahead,
                 DecodedTile& tile) {
  constexpr Format format = format_of(type);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t column = block * format.columns, group = column / format.group, part = column / block_size;
    for (int row = 0; row < tile_rows; row += 8) {
      const Rows rows{w + row * row_bytes + block * format.bytes, row_bytes,
                      ahead + (2 * block + row / 8) * (8 * format.bytes)};
      decode_codes<type>(rows, {&tile.codes[column / 4][row][0]});
      decode_scales<type>(rows, {&tile.scale[adds_groups(type) ? part : group][row]}, {&tile.offset[group][row]},
                          {&tile.scale_codes[part][row]});
    }
  }
}

// --- codes of tiles.h -------------------------------------------------------------------------------------------

// Converts stored codes to what group_sums multiplies.
template <Type type>
SPECDEC_INLINE Codes finished(Codes code) {
  if constexpr (has_table(type)) return looked_up(code_table<type>(), code);
  else if constexpr (type == Type::q8_0 && !signed_bytes<type>)
    return flipped(code, broadcast_ints(static_cast<std::int32_t>(0x80808080)));
  else return code;
}

// --- packing ----------------------------------------------------------------------------------------------------

#include "weights/rounding_x86.h"

void pack(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
          std::int64_t block_end, PanelBlock* panel) noexcept {
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    PanelBlock& to = panel[panel_place(n, k, column, block)];
    const RoundedBlock rounded = round_block_x86(x + block * block_size, to.codes);
    store_numbers(type, rounded.scale, {sum_of_lanes(rounded.sums[0]), sum_of_lanes(rounded.sums[1])}, to);
  }
}

// --- outputs ----------------------------------------------------------------------------------------------------

SPECDEC_INLINE void stream_row(float* out, const float* row) {
  _mm256_stream_ps(out, _mm256_loadu_ps(row));
  _mm256_stream_ps(out + 8, _mm256_loadu_ps(row + 8));
}
SPECDEC_INLINE void finish_streams() { _mm_sfence(); }

#include "weights/blocks/matmul_kernel.h"
