// The kernels for 256-bit registers; included inside an anonymous namespace by one file per instruction set, which
// defines
//   add_products(sum, w, a)  sum += w * a in place; each int32 gets four neighbouring products of unsigned and signed
//                            bytes
//
// A tile is decoded to unsigned bytes first: per group of 4 columns 64 bytes, rows 0-7 in one register, 8-15 in the
// next. A byte is value * 8 + 64, 4..124. Without VNNI maddubs multiplies bytes by int8 activations into int16 pair
// sums without saturating: pairs reach 124 * 127 * 2 = 31496. Starting the sum at -64 * sum(activations) removes the
// offset.
static_assert((60 + weight_offset) * 127 * 2 <= 32767, "pair sums fit int16");

constexpr int decoded_bytes = tile_rows * tile_columns;

SPECDEC_INLINE __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
SPECDEC_INLINE void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
SPECDEC_INLINE __m256i bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }

// Negates where the code's sign bit, shifted to bit 7, is set. vpsignb zeroes the magnitude if the shifted byte is
// zero, but then the code is zero and so is the magnitude.
SPECDEC_INLINE __m256i with_sign(__m256i magnitude, __m256i codes) {
  return _mm256_sign_epi8(magnitude, _mm256_slli_epi16(codes, 2));
}

// Codes (the two bits above each are ignored) -> value * 8 + 64. Magnitude codes below 16 equal their multiples; pshufb
// gives zero for them, because their index is negative, and at least the code for the others.
SPECDEC_INLINE __m256i decoded_codes(__m256i codes) {
  const __m256i upper =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60));
  const __m256i magnitude_code = _mm256_and_si256(codes, bytes(31));
  const __m256i looked_up = _mm256_shuffle_epi8(upper, _mm256_sub_epi8(magnitude_code, bytes(16)));
  const __m256i magnitude = _mm256_max_epu8(magnitude_code, looked_up);
  return _mm256_add_epi8(with_sign(magnitude, codes), bytes(weight_offset));
}

static_assert(code_multiple(15) == 15 && code_multiple(16) == 16 && code_multiple(31) == 60,
              "assumed by decoded_codes");

// Codes of a half's fourth group from the top bits of its three planes; bits above bit 5 are undefined.
SPECDEC_INLINE __m256i fourth_group(__m256i plane0, __m256i plane1, __m256i plane2) {
  const __m256i low = _mm256_and_si256(_mm256_srli_epi16(plane0, 6), bytes(0x03));
  const __m256i middle = _mm256_and_si256(_mm256_srli_epi16(plane1, 4), bytes(0x0C));
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(plane2, 2), bytes(0x30));
  return _mm256_or_si256(_mm256_or_si256(low, middle), high);
}

// The four groups of half of the columns.
SPECDEC_INLINE void decode_half(const std::uint8_t* tile, int half, std::uint8_t* decoded) {
  for (int rows = 0; rows < 2; ++rows) {
    const std::uint8_t* from = tile + half * half_bytes + rows * 32;
    std::uint8_t* to = decoded + half * 4 * group_places + rows * 32;
    const __m256i plane[3] = {load(from), load(from + group_places), load(from + 2 * group_places)};
    for (int j = 0; j < 3; ++j) store(to + j * group_places, decoded_codes(plane[j]));
    store(to + 3 * group_places, decoded_codes(fourth_group(plane[0], plane[1], plane[2])));
  }
}

SPECDEC_INLINE void decode_tile(const std::uint8_t* tile, std::uint8_t* decoded) {
  decode_half(tile, 0, decoded);
  decode_half(tile, 1, decoded);
}

// Fetches the weights `tiles` tiles ahead.
template <int tiles, decltype(_MM_HINT_T0) level>
SPECDEC_INLINE void prefetch_ahead(const std::uint8_t* tile) {
  for (int line = 0; line < tile_bytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(tile) + tiles * tile_bytes + line, level);
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

// Four columns and both halves of the rows need eight registers for sums; the weights and temporaries fit the other
// eight.
constexpr int columns_at_once = 4;

// Exact block sums of C columns: sum[column][rows 0-7, 8-15]. `correction` is -64 * sum of the activation codes.

template <int C>
SPECDEC_INLINE void dot_tile(const std::uint8_t* weights, const char* codes, const std::int32_t* correction,
                             __m256i (&sum)[C][2]) {
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

// Columns [first, first + C) of a group of W: acc += block sums * scales. The accumulators are in memory, because 16
// registers do not hold those of eight columns.
template <int W, int first, int C>
SPECDEC_INLINE void accumulate_columns(const std::uint8_t* tile, const std::uint8_t* decoded, const char* group,
                                       float (&acc)[W][tile_rows]) {
  const float* scales = reinterpret_cast<const float*>(group + W * block_size) + first;
  const std::int32_t* corrections = reinterpret_cast<const std::int32_t*>(group + W * (block_size + 4)) + first;
  __m256i sum[C][2];
  dot_tile<C>(decoded, group + first * block_size, corrections, sum);
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
template <int W, int first>
SPECDEC_INLINE void accumulate_from(const std::uint8_t* tile, const std::uint8_t* decoded, const char* group,
                                    float (&acc)[W][tile_rows]) {
  if constexpr (first < W) {
    constexpr int count = W - first < columns_at_once ? W - first : columns_at_once;
    accumulate_columns<W, first, count>(tile, decoded, group, acc);
    accumulate_from<W, first + count>(tile, decoded, group, acc);
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
template <int W>
void band_times_group(const std::uint8_t* band, const std::uint8_t*, std::int64_t blocks, const char* group, float* out,
                      std::int64_t ldo) {
  alignas(32) std::uint8_t buffer[2][decoded_bytes];
  alignas(32) float acc[W][tile_rows] = {};
  constexpr int leading = W < columns_at_once ? W : columns_at_once;
  decode_tile(band, buffer[0]);
  for (std::int64_t block = 0; block < blocks; ++block, group += W * panel_block_bytes) {
    const std::uint8_t* tile = band + block * tile_bytes;
    const std::uint8_t* next = block + 1 < blocks ? tile + tile_bytes : tile;
    const std::uint8_t* decoded = buffer[block % 2];
    std::uint8_t* decoded_next = buffer[(block + 1) % 2];
    prefetch_ahead<12, _MM_HINT_T0>(tile);
    decode_half(next, 0, decoded_next);
    accumulate_columns<W, 0, leading>(tile, decoded, group, acc);
    decode_half(next, 1, decoded_next);
    accumulate_from<W, leading>(tile, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

// The same from the band's decoded tiles.
template <int W>
void decoded_times_group(const std::uint8_t* band, const std::uint8_t* decoded, std::int64_t blocks, const char* group,
                         float* out, std::int64_t ldo) {
  alignas(32) float acc[W][tile_rows] = {};
  for (std::int64_t block = 0; block < blocks;
       ++block, band += tile_bytes, decoded += decoded_bytes, group += W * panel_block_bytes) {
    accumulate_from<W, 0>(band, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

void decode_band(const std::uint8_t* band, std::int64_t blocks, std::uint8_t* decoded) {
  for (std::int64_t block = 0; block < blocks; ++block) {
    prefetch_ahead<20, _MM_HINT_T1>(band + block * tile_bytes);
    decode_tile(band + block * tile_bytes, decoded + block * decoded_bytes);
  }
}

using Decoded = std::uint8_t;

#include "weights/mxfp6/matmul_bands.h"
#include "weights/mxfp6/quantize_x86.h"
