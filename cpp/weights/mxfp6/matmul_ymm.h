// The kernels for 256-bit registers; included inside an anonymous namespace by one file per instruction set, which defines
//   add_products(sum, w, a)  sum += w * a in place; each int32 gets four neighbouring products (unsigned by signed bytes)
//   has_vnni                 whether add_products is one instruction (vpdpbusd), without int16 intermediate sums.
//
// A tile is decoded to unsigned bytes first: per group of 4 columns 64 bytes, rows 0-7 in one register, 8-15 in the next.
// Without VNNI maddubs multiplies them by int8 activations into int16 pair sums without saturating:
//   E2M3  value * 8 + 64 is 4..124, pairs reach 124 * 127 * 2 = 31496; every pair sum is widened to int32.
//   E3M2  value * 16 = 16 * high + low, both of the value's sign. high + 32 is 4..60 (pairs reach 15240: two fit int16),
//         low + 16 is 1..31 (pairs reach 7874: four fit).
// Starting the sum at -64 (E3M2: -(16 * 32 + 16)) * sum(activations) removes the offsets.

constexpr int high_offset = 32, low_offset = 16;
constexpr int e3m2_offset = 16 * high_offset + low_offset;
static_assert((60 + weight_offset) * 127 * 2 <= 32767, "E2M3 pair sums fit int16");
static_assert((28 + high_offset) * 127 * 2 * 2 <= 32767, "two E3M2 high pair sums fit int16");
static_assert((15 + low_offset) * 127 * 2 * 4 <= 32767, "four E3M2 low pair sums fit int16");

// Bytes of a decoded tile: E2M3 one plane, E3M2 high then low.
constexpr int plane_bytes = tile_rows * tile_columns;
template <Type type>
constexpr int decoded_bytes = (type == Type::e2m3 ? 1 : 2) * plane_bytes;

// One digit (base 16: high or low) of the multiples of E3M2 magnitudes.
struct DigitTable {
  alignas(32) std::uint8_t entry[32];
};

constexpr DigitTable make_digits(bool high) {
  DigitTable table{};
  for (int code = 0; code < 32; ++code) {
    const int multiple = code_multiple(Type::e3m2, code);
    table.entry[code] = static_cast<std::uint8_t>(high ? multiple / 16 : multiple % 16);
  }
  return table;
}

constexpr DigitTable e3m2_high = make_digits(true);
constexpr DigitTable e3m2_low = make_digits(false);

SPECDEC_INLINE __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
SPECDEC_INLINE void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
SPECDEC_INLINE __m256i table_row(const std::uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
SPECDEC_INLINE __m256i bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }

// Negates where the code's sign bit, shifted to bit 7, is set. vpsignb zeroes the magnitude if the shifted byte is zero, but
// then the code is zero and so is the magnitude.
SPECDEC_INLINE __m256i with_sign(__m256i magnitude, __m256i codes) { return _mm256_sign_epi8(magnitude, _mm256_slli_epi16(codes, 2)); }

// Codes (the two bits above each are ignored) -> value * 8 + 64. Magnitude codes below 16 equal their multiples; pshufb gives
// zero for them, because their index is negative, and at least the code for the others.
SPECDEC_INLINE __m256i decode_e2m3(__m256i codes) {
  const __m256i upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60));
  const __m256i magnitude_code = _mm256_and_si256(codes, bytes(31));
  const __m256i looked_up = _mm256_shuffle_epi8(upper, _mm256_sub_epi8(magnitude_code, bytes(16)));
  const __m256i magnitude = _mm256_max_epu8(magnitude_code, looked_up);
  return _mm256_add_epi8(with_sign(magnitude, codes), bytes(weight_offset));
}

static_assert(code_multiple(Type::e2m3, 15) == 15 && code_multiple(Type::e2m3, 16) == 16 && code_multiple(Type::e2m3, 31) == 60,
              "assumed by decode_e2m3");

// Looks magnitude codes up in a table of 32, in two halves: each index has bit 7 set (giving zero) where the other applies.
SPECDEC_INLINE __m256i digits(const DigitTable& table, __m256i index_below_16, __m256i index_from_16) {
  return _mm256_or_si256(_mm256_shuffle_epi8(table_row(table.entry), index_below_16),
                         _mm256_shuffle_epi8(table_row(table.entry + 16), index_from_16));
}

template <Type type>
SPECDEC_INLINE void decode_bytes(__m256i codes, std::uint8_t* to) {
  if constexpr (type == Type::e2m3) {
    store(to, decode_e2m3(codes));
  } else {
    const __m256i magnitude_code = _mm256_and_si256(codes, bytes(31));
    const __m256i below_16 = _mm256_add_epi8(magnitude_code, bytes(0x70)), from_16 = _mm256_sub_epi8(magnitude_code, bytes(16));
    const __m256i high = with_sign(digits(e3m2_high, below_16, from_16), codes);
    const __m256i low = with_sign(digits(e3m2_low, below_16, from_16), codes);
    store(to, _mm256_add_epi8(high, bytes(high_offset)));
    store(to + plane_bytes, _mm256_add_epi8(low, bytes(low_offset)));
  }
}

// Codes of a half's fourth group from the top bits of its three planes; bits above bit 5 are undefined.
SPECDEC_INLINE __m256i fourth_group(__m256i plane0, __m256i plane1, __m256i plane2) {
  const __m256i low = _mm256_and_si256(_mm256_srli_epi16(plane0, 6), bytes(0x03));
  const __m256i middle = _mm256_and_si256(_mm256_srli_epi16(plane1, 4), bytes(0x0C));
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(plane2, 2), bytes(0x30));
  return _mm256_or_si256(_mm256_or_si256(low, middle), high);
}

// The four groups of half of the columns.
template <Type type>
SPECDEC_INLINE void decode_half(const std::uint8_t* tile, int half, std::uint8_t* decoded) {
  for (int rows = 0; rows < 2; ++rows) {
    const std::uint8_t* from = tile + half * half_bytes + rows * 32;
    std::uint8_t* to = decoded + half * 4 * group_places + rows * 32;
    const __m256i plane[3] = {load(from), load(from + group_places), load(from + 2 * group_places)};
    for (int j = 0; j < 3; ++j) decode_bytes<type>(plane[j], to + j * group_places);
    decode_bytes<type>(fourth_group(plane[0], plane[1], plane[2]), to + 3 * group_places);
  }
}

template <Type type>
SPECDEC_INLINE void decode_tile(const std::uint8_t* tile, std::uint8_t* decoded) {
  decode_half<type>(tile, 0, decoded);
  decode_half<type>(tile, 1, decoded);
}

// Fetches the weights `tiles` tiles ahead.
template <int tiles, decltype(_MM_HINT_T0) level>
SPECDEC_INLINE void prefetch_ahead(const std::uint8_t* tile) {
  for (int line = 0; line < tile_bytes; line += 64) _mm_prefetch(reinterpret_cast<const char*>(tile) + tiles * tile_bytes + line, level);
}

// Scales of 8 rows.
SPECDEC_INLINE __m256 weight_scales(const std::uint8_t* tile, int rows) {
  const __m128i scales = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(tile + tile_code_bytes + 8 * rows));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(scales), 23));
}

SPECDEC_INLINE __m256i activations_of(const char* codes, int column, int group) {
  std::int32_t four;
  __builtin_memcpy(&four, codes + column * block_size + group * group_columns, sizeof four);
  return _mm256_set1_epi32(four);
}

// Adds in place. The asm statement keeps compilers from reordering integer sums, which would need more than 16 registers.
SPECDEC_INLINE void add_to(__m256i& sum, __m256i v) {
  sum = _mm256_add_epi32(sum, v);
  __asm__("" : "+x"(sum));
}
SPECDEC_INLINE void add_words_to(__m256i& sum, __m256i v) {
  sum = _mm256_add_epi16(sum, v);
  __asm__("" : "+x"(sum));
}

// E2M3: four columns and both halves of the rows need eight registers for sums; the weights and temporaries fit the other
// eight. E3M2 spills with four columns, but two measured slower.
constexpr int columns_at_once = 4;

// Exact block sums of C columns: sum[column][rows 0-7, 8-15]. `correction` is -64 * sum of the activation codes.

template <int C>
SPECDEC_INLINE void dot_e2m3(const std::uint8_t* weights, const char* codes, const std::int32_t* correction, __m256i (&sum)[C][2]) {
  for (int c = 0; c < C; ++c) sum[c][0] = sum[c][1] = _mm256_set1_epi32(correction[c]);
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const __m256i w0 = load(weights + g * group_places), w1 = load(weights + g * group_places + 32);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const __m256i a = activations_of(codes, c, g);
      add_products(sum[c][0], w0, a);
      add_products(sum[c][1], w1, a);
    }
  }
}

// One half of the rows. The correction is a multiple of 64.
template <int C>
SPECDEC_INLINE void dot_e3m2_half_vnni(const std::uint8_t* weights, const char* codes, const std::int32_t* correction, int half,
                                       __m256i (&sum)[C][2]) {
  __m256i low_sum[C];
  for (int c = 0; c < C; ++c) {
    sum[c][half] = _mm256_setzero_si256();
    low_sum[c] = _mm256_set1_epi32(correction[c] / weight_offset * e3m2_offset);
  }
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const std::uint8_t* at = weights + g * group_places + 32 * half;
    const __m256i high = load(at), low = load(at + plane_bytes);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const __m256i a = activations_of(codes, c, g);
      add_products(sum[c][half], high, a);
      add_products(low_sum[c], low, a);
    }
  }
  for (int c = 0; c < C; ++c) sum[c][half] = _mm256_add_epi32(_mm256_slli_epi32(sum[c][half], 4), low_sum[c]);
}

template <int C>
SPECDEC_INLINE void dot_e3m2_half(const std::uint8_t* weights, const char* codes, const std::int32_t* correction, int half,
                                  __m256i (&sum)[C][2]) {
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  for (int c = 0; c < C; ++c) sum[c][half] = _mm256_set1_epi32(correction[c] / weight_offset * e3m2_offset);
#pragma GCC unroll 2
  for (int four_groups = 0; four_groups < groups; four_groups += 4) {
    __m256i low_sum[C];
    for (int c = 0; c < C; ++c) low_sum[c] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int g = four_groups; g < four_groups + 4; g += 2) {
      const std::uint8_t* at = weights + g * group_places + 32 * half;
      const __m256i high0 = load(at), high1 = load(at + group_places);
      const __m256i low0 = load(at + plane_bytes), low1 = load(at + plane_bytes + group_places);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        const __m256i a0 = activations_of(codes, c, g), a1 = activations_of(codes, c, g + 1);
        const __m256i high = _mm256_add_epi16(_mm256_maddubs_epi16(high0, a0), _mm256_maddubs_epi16(high1, a1));
        const __m256i low = _mm256_add_epi16(_mm256_maddubs_epi16(low0, a0), _mm256_maddubs_epi16(low1, a1));
        add_to(sum[c][half], _mm256_madd_epi16(high, sixteens));
        add_words_to(low_sum[c], low);
      }
    }
    for (int c = 0; c < C; ++c) add_to(sum[c][half], _mm256_madd_epi16(low_sum[c], ones));
  }
}

template <Type type, int C>
SPECDEC_INLINE void dot_tile(const std::uint8_t* decoded, const char* codes, const std::int32_t* correction, __m256i (&sum)[C][2]) {
  if constexpr (type == Type::e2m3) {
    dot_e2m3<C>(decoded, codes, correction, sum);
  } else if constexpr (has_vnni) {
    dot_e3m2_half_vnni<C>(decoded, codes, correction, 0, sum);
    dot_e3m2_half_vnni<C>(decoded, codes, correction, 1, sum);
  } else {
    dot_e3m2_half<C>(decoded, codes, correction, 0, sum);
    // Keeps the compiler from sharing the activations of both halves in registers, which would spill everything else.
    __asm__("" : "+r"(codes));
    dot_e3m2_half<C>(decoded, codes, correction, 1, sum);
  }
}

// Columns [first, first + C) of a group of W: acc += block sums * scales. The accumulators are in memory, because 16 registers
// do not hold those of eight columns.
template <Type type, int W, int first, int C>
SPECDEC_INLINE void accumulate_columns(const std::uint8_t* tile, const std::uint8_t* decoded, const char* group,
                                       float (&acc)[W][tile_rows]) {
  const float* scales = reinterpret_cast<const float*>(group + W * block_size) + first;
  const std::int32_t* corrections = reinterpret_cast<const std::int32_t*>(group + W * (block_size + 4)) + first;
  __m256i sum[C][2];
  dot_tile<type, C>(decoded, group + first * block_size, corrections, sum);
  for (int half = 0; half < 2; ++half) {
    const __m256 weight_scale = weight_scales(tile, half);
    for (int c = 0; c < C; ++c) {
      const __m256 scale = _mm256_mul_ps(weight_scale, _mm256_set1_ps(scales[c]));
      float* rows = acc[first + c] + 8 * half;
      _mm256_storeu_ps(rows, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c][half]), scale, _mm256_loadu_ps(rows)));
    }
  }
}

// Columns from `first` on.
template <Type type, int W, int first>
SPECDEC_INLINE void accumulate_from(const std::uint8_t* tile, const std::uint8_t* decoded, const char* group, float (&acc)[W][tile_rows]) {
  if constexpr (first < W) {
    constexpr int count = W - first < columns_at_once ? W - first : columns_at_once;
    accumulate_columns<type, W, first, count>(tile, decoded, group, acc);
    accumulate_from<type, W, first + count>(tile, decoded, group, acc);
  }
}

template <int W>
SPECDEC_INLINE void store_columns(const float (&acc)[W][tile_rows], float* out, std::int64_t ldo) {
  for (int c = 0; c < W; ++c) {
    for (int row = 0; row < tile_rows; ++row) out[c * ldo + row] = acc[c][row];
  }
}

// A band times a panel group of W columns. Each tile is decoded, half by half, while the one before is multiplied: the
// two use different execution ports.
template <Type type, int W>
void band_times_group(const std::uint8_t* band, const std::uint8_t*, std::int64_t blocks, const char* group, float* out, std::int64_t ldo) {
  alignas(32) std::uint8_t buffer[2][decoded_bytes<type>];
  alignas(32) float acc[W][tile_rows] = {};
  constexpr int leading = W < columns_at_once ? W : columns_at_once;
  decode_tile<type>(band, buffer[0]);
  for (std::int64_t block = 0; block < blocks; ++block, group += W * panel_block_bytes) {
    const std::uint8_t* tile = band + block * tile_bytes;
    const std::uint8_t* next = block + 1 < blocks ? tile + tile_bytes : tile;
    const std::uint8_t* decoded = buffer[block % 2];
    std::uint8_t* decoded_next = buffer[(block + 1) % 2];
    prefetch_ahead<12, _MM_HINT_T0>(tile);
    decode_half<type>(next, 0, decoded_next);
    accumulate_columns<type, W, 0, leading>(tile, decoded, group, acc);
    decode_half<type>(next, 1, decoded_next);
    accumulate_from<type, W, leading>(tile, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

// The same from the band's decoded tiles.
template <Type type, int W>
void decoded_times_group(const std::uint8_t* band, const std::uint8_t* decoded, std::int64_t blocks, const char* group, float* out,
                         std::int64_t ldo) {
  alignas(32) float acc[W][tile_rows] = {};
  for (std::int64_t block = 0; block < blocks;
       ++block, band += tile_bytes, decoded += decoded_bytes<type>, group += W * panel_block_bytes) {
    accumulate_from<type, W, 0>(band, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

template <Type type>
void decode_band(const std::uint8_t* band, std::int64_t blocks, std::uint8_t* decoded) {
  for (std::int64_t block = 0; block < blocks; ++block) {
    prefetch_ahead<20, _MM_HINT_T1>(band + block * tile_bytes);
    decode_tile<type>(band + block * tile_bytes, decoded + block * decoded_bytes<type>);
  }
}

using BandTimesGroup = void (*)(const std::uint8_t*, const std::uint8_t*, std::int64_t, const char*, float*, std::int64_t);

// By width; entry 0 is not used.
template <Type type>
constexpr BandTimesGroup on_the_way[panel_width + 1] = {
    nullptr,
    band_times_group<type, 1>,
    band_times_group<type, 2>,
    band_times_group<type, 3>,
    band_times_group<type, 4>,
    band_times_group<type, 5>,
    band_times_group<type, 6>,
    band_times_group<type, 7>,
    band_times_group<type, 8>,
};
template <Type type>
constexpr BandTimesGroup from_scratch[panel_width + 1] = {
    nullptr,
    decoded_times_group<type, 1>,
    decoded_times_group<type, 2>,
    decoded_times_group<type, 3>,
    decoded_times_group<type, 4>,
    decoded_times_group<type, 5>,
    decoded_times_group<type, 6>,
    decoded_times_group<type, 7>,
    decoded_times_group<type, 8>,
};

// Number of panel groups from which decoding into scratch pays; with fewer, each group decodes again (E3M2 needs twice the
// scratch memory).
template <Type type>
constexpr std::int64_t groups_to_share = type == Type::e2m3 ? 2 : 4;

template <Type type>
void matmul_as(const std::uint8_t* tiles, std::int64_t k, const char* panel, std::int64_t n, std::int64_t band_begin, std::int64_t band_end,
               float* out, std::int64_t ldo, std::uint8_t* scratch) {
  const std::int64_t blocks = k / block_size;
  const std::int64_t band_decoded = blocks * decoded_bytes<type>;
  const bool share_decoded = n > (groups_to_share<type> - 1) * panel_width;
  for (std::int64_t first = band_begin; first < band_end; first += scratch_bands) {
    const std::int64_t count = band_end - first < scratch_bands ? band_end - first : scratch_bands;
    const std::uint8_t* bands = tiles + first * blocks * tile_bytes;
    for (std::int64_t b = 0; share_decoded && b < count; ++b) {
      decode_band<type>(bands + b * blocks * tile_bytes, blocks, scratch + b * band_decoded);
    }
    for (std::int64_t column = 0; column < n; column += panel_width) {
      const std::int64_t width = n - column < panel_width ? n - column : panel_width;
      const char* group = panel + panel_block(n, k, column, 0).codes;
      for (std::int64_t b = 0; b < count; ++b) {
        const auto run = share_decoded ? from_scratch<type>[width] : on_the_way<type>[width];
        run(bands + b * blocks * tile_bytes, scratch + b * band_decoded, blocks, group, out + column * ldo + (first + b) * tile_rows, ldo);
      }
    }
  }
}

void matmul(Type type, const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
            std::int64_t band_end, float* out, std::int64_t ldo, void* scratch) noexcept {
  const auto run = type == Type::e2m3 ? matmul_as<Type::e2m3> : matmul_as<Type::e3m2>;
  run(tiles, k, static_cast<const char*>(panel), n, band_begin, band_end, out, ldo, static_cast<std::uint8_t*>(scratch));
}

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

void quantize(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
              std::int64_t block_end, void* panel) noexcept {
  char* base = static_cast<char*>(panel);
  const float unit = type == Type::e2m3 ? 0x1p-3f : 0x1p-4f;
  const __m256i magnitude_mask = _mm256_set1_epi32(0x7fffffff);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    __m256 value[4];
    __m256i largest_lanes = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      value[i] = _mm256_loadu_ps(x + block * block_size + 8 * i);
      // As integers, magnitudes order NaN and infinity above every finite value.
      largest_lanes = _mm256_max_epi32(largest_lanes, _mm256_and_si256(_mm256_castps_si256(value[i]), magnitude_mask));
    }
    const std::int32_t largest_bits = largest_lane(largest_lanes);
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof largest);
    const bool finite = largest_bits < 0x7f800000;
    const bool zero = !finite || largest < tiny_block;
    const __m256 inverse = _mm256_set1_ps(zero ? 0.0f : 127.0f / largest);
    const __m256i keep = _mm256_set1_epi32(zero ? 0 : -1);
    __m256i rounded[4], sum = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      rounded[i] = _mm256_and_si256(keep, _mm256_cvtps_epi32(_mm256_mul_ps(value[i], inverse)));
      sum = _mm256_add_epi32(sum, rounded[i]);
    }
    const float scale = !finite ? __builtin_nanf("") : zero ? unit : largest / 127.0f * unit;
    const std::int32_t correction = -weight_offset * sum_of_lanes(sum);
    // Packing works within 128-bit lanes: afterwards the dwords hold values 0-3, 8-11, 16-19, 24-27, 4-7, 12-15, ...
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), _mm256_packs_epi32(rounded[2], rounded[3]));
    const PanelBlock at = panel_block(n, k, column, block);
    store(base + at.codes, _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    __builtin_memcpy(base + at.scale, &scale, sizeof scale);
    __builtin_memcpy(base + at.correction, &correction, sizeof correction);
  }
}

// Byte i of every lane, sign-extended.
template <int i>
SPECDEC_INLINE __m256i byte_of(__m256i lanes) {
  if constexpr (i == 3) return _mm256_srai_epi32(lanes, 24);
  return _mm256_srai_epi32(_mm256_slli_epi32(lanes, 24 - 8 * i), 24);
}

// Multiples of 8 rows in column i of a group, from the decoded bytes without their offsets.
template <Type type, int i>
SPECDEC_INLINE __m256 multiples_f32(__m256i high, __m256i low) {
  if constexpr (type == Type::e2m3) return _mm256_cvtepi32_ps(byte_of<i>(high));
  return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32(byte_of<i>(high), 4), byte_of<i>(low)));
}

template <Type type, int C, int i>
SPECDEC_INLINE void fma_column(__m256i high, __m256i low, const float* x, std::int64_t ldx, __m256 (&partial)[C][group_columns]) {
  const __m256 w = multiples_f32<type, i>(high, low);
  for (int c = 0; c < C; ++c) partial[c][i] = _mm256_fmadd_ps(w, _mm256_set1_ps(x[c * ldx + i]), partial[c][i]);
}

// 8 rows of a decoded tile times C columns.
template <Type type, int C>
SPECDEC_INLINE void dot_f32(const std::uint8_t* decoded, const float* x, std::int64_t ldx, __m256 (&sum)[C]) {
  __m256 partial[C][group_columns];
  for (int c = 0; c < C; ++c) {
    for (int i = 0; i < group_columns; ++i) partial[c][i] = _mm256_setzero_ps();
  }
  for (int g = 0; g < groups; ++g) {
    const std::uint8_t* at = decoded + g * group_places;
    const __m256i high = _mm256_sub_epi8(load(at), bytes(type == Type::e2m3 ? weight_offset : high_offset));
    const __m256i low = type == Type::e2m3 ? high : _mm256_sub_epi8(load(at + plane_bytes), bytes(low_offset));
    fma_column<type, C, 0>(high, low, x + g * group_columns, ldx, partial);
    fma_column<type, C, 1>(high, low, x + g * group_columns, ldx, partial);
    fma_column<type, C, 2>(high, low, x + g * group_columns, ldx, partial);
    fma_column<type, C, 3>(high, low, x + g * group_columns, ldx, partial);
  }
  for (int c = 0; c < C; ++c) {
    sum[c] = _mm256_add_ps(_mm256_add_ps(partial[c][0], partial[c][1]), _mm256_add_ps(partial[c][2], partial[c][3]));
  }
}

template <Type type, int C>
void band_times_f32(const std::uint8_t* band, std::int64_t blocks, const float* x, std::int64_t ldx, float* out, std::int64_t ldo) {
  alignas(32) std::uint8_t decoded[2 * plane_bytes];
  const __m256 unit = _mm256_set1_ps(type == Type::e2m3 ? 0x1p-3f : 0x1p-4f);
  __m256 acc[C][2];
  for (int c = 0; c < C; ++c) acc[c][0] = acc[c][1] = _mm256_setzero_ps();
  for (std::int64_t block = 0; block < blocks; ++block, band += tile_bytes, x += block_size) {
    decode_tile<type>(band, decoded);
    for (int rows = 0; rows < 2; ++rows) {
      __m256 sum[C];
      dot_f32<type, C>(decoded + 32 * rows, x, ldx, sum);
      const __m256 weight_scale = _mm256_mul_ps(weight_scales(band, rows), unit);
      for (int c = 0; c < C; ++c) acc[c][rows] = _mm256_fmadd_ps(sum[c], weight_scale, acc[c][rows]);
    }
  }
  for (int c = 0; c < C; ++c) {
    _mm256_storeu_ps(out + c * ldo, acc[c][0]);
    _mm256_storeu_ps(out + c * ldo + 8, acc[c][1]);
  }
}

template <Type type>
void matmul_f32_as(const std::uint8_t* tiles, std::int64_t k, const float* x, std::int64_t ldx, std::int64_t n, std::int64_t band_begin,
                   std::int64_t band_end, float* out, std::int64_t ldo) {
  const std::int64_t blocks = k / block_size;
  for (std::int64_t band = band_begin; band < band_end; ++band) {
    for (std::int64_t column = 0; column < n; column += 2) {
      const auto run = n - column >= 2 ? band_times_f32<type, 2> : band_times_f32<type, 1>;
      run(tiles + band * blocks * tile_bytes, blocks, x + column * ldx, ldx, out + column * ldo + band * tile_rows, ldo);
    }
  }
}

void matmul_f32(Type type, const std::uint8_t* tiles, std::int64_t k, const float* x, std::int64_t ldx, std::int64_t n,
                std::int64_t band_begin, std::int64_t band_end, float* out, std::int64_t ldo) noexcept {
  const auto run = type == Type::e2m3 ? matmul_f32_as<Type::e2m3> : matmul_f32_as<Type::e3m2>;
  run(tiles, k, x, ldx, n, band_begin, band_end, out, ldo);
}
