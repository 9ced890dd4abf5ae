// AVX-512 kernels with VNNI and VBMI.
//
// vpermb looks 64 codes up in a table of 64 bytes by their low 6 bits: one instruction turns codes into unsigned weights
// value * 8 + 64. vpdpbusd multiplies them by int8 activations, 16 rows per register, 4 columns per lane. Starting the sum at
// -64 * sum(activations) removes the offset.
// E3M2 multiples need more than 8 bits: value * 16 = 16 * high + low, two tables and two sums.
#include <immintrin.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

struct ByteTable {
  alignas(64) std::uint8_t entry[num_codes];
};

constexpr ByteTable make_e2m3_table() {
  ByteTable table{};
  for (int code = 0; code < num_codes; ++code) {
    table.entry[code] = static_cast<std::uint8_t>(code_multiple(Type::e2m3, code) + weight_offset);
  }
  return table;
}

constexpr ByteTable make_e3m2_table(bool high) {
  ByteTable table{};
  for (int code = 0; code < num_codes; ++code) {
    const int multiple = code_multiple(Type::e3m2, code) + 16 * weight_offset;
    table.entry[code] = static_cast<std::uint8_t>(high ? multiple / 16 : multiple % 16);
  }
  return table;
}

constexpr ByteTable e2m3_table = make_e2m3_table();
constexpr ByteTable e3m2_high = make_e3m2_table(true);
constexpr ByteTable e3m2_low = make_e3m2_table(false);

// Multiples as bf16, so that a table entry in the upper half of a lane is an f32.
struct WordTable {
  alignas(64) std::uint16_t entry[num_codes];
};

constexpr std::uint16_t bf16_of(int multiple) {
  const int magnitude = multiple < 0 ? -multiple : multiple;
  if (magnitude == 0) return 0;
  int exponent = 0;
  while (magnitude >> (exponent + 1) != 0) ++exponent;
  const int mantissa = exponent <= 7 ? magnitude << (7 - exponent) : magnitude >> (exponent - 7);
  return static_cast<std::uint16_t>((multiple < 0 ? 0x8000 : 0) | (127 + exponent) << 7 | (mantissa & 127));
}

constexpr WordTable make_word_table(Type type) {
  WordTable table{};
  for (int code = 0; code < num_codes; ++code) table.entry[code] = bf16_of(code_multiple(type, code));
  return table;
}

constexpr WordTable e2m3_words = make_word_table(Type::e2m3);
constexpr WordTable e3m2_words = make_word_table(Type::e3m2);

__m512i load(const void* p) { return _mm512_loadu_si512(p); }

// Codes of a half's fourth group from the top bits of its three planes; bits above bit 5 are undefined.
__m512i fourth_group(__m512i plane0, __m512i plane1, __m512i plane2) {
  const __m512i low = _mm512_srli_epi16(plane0, 6);
  const __m512i middle = _mm512_srli_epi16(plane1, 4);
  const __m512i high = _mm512_srli_epi16(plane2, 2);
  // Bitwise select by mask: (mask & a) | (~mask & b).
  const __m512i low_middle = _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x03), low, middle, 0xCA);
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x0F), low_middle, high, 0xCA);
}

__m512 weight_scales(const std::uint8_t* tile) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tile + tile_code_bytes));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23));
}

// Prefetch distance in tiles, into L2: in L1 the weights would evict the activations. For one column, and for several bands at
// once, the hardware prefetcher is enough.
constexpr int prefetch_tiles(int W, int B) { return W == 1 || B > 1 ? 0 : W <= 4 ? 20 : 16; }

template <int W, int B>
void prefetch_ahead(const std::uint8_t* tile) {
  if constexpr (prefetch_tiles(W, B) > 0) {
    for (int line = 0; line < tile_bytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(tile) + prefetch_tiles(W, B) * tile_bytes + line, _MM_HINT_T1);
    }
  }
}

// A block of W columns of the panel: of one group, or of a full group and the next one.
template <int W>
struct PanelBlocks {
  static constexpr int first_width = W < panel_width ? W : panel_width, second_width = W - first_width;
  const char *first, *second;  // codes [width][32], scales [width], corrections [width]

  const char* codes(int c) const { return c < first_width ? first + c * block_size : second + (c - first_width) * block_size; }
  template <class T>
  T number(int c, int place) const {  // 0: of the scales; 1: of the corrections
    T value;
    const char* at = c < first_width ? first + first_width * (block_size + 4 * place) + 4 * c
                                     : second + second_width * (block_size + 4 * place) + 4 * (c - first_width);
    __builtin_memcpy(&value, at, sizeof value);
    return value;
  }
  void advance() {
    first += first_width * panel_block_bytes;
    second += second_width * panel_block_bytes;
  }
};

// One 4-column group of weights (one register) times the same columns of W activations.
template <int W>
inline __attribute__((always_inline)) void dot_group(__m512i weights, const PanelBlocks<W>& panel, int group, __m512i (&sum)[W]) {
#pragma GCC unroll 16
  for (int c = 0; c < W; ++c) {
    std::int32_t four;
    __builtin_memcpy(&four, panel.codes(c) + group * group_columns, sizeof four);
    sum[c] = _mm512_dpbusd_epi32(sum[c], weights, _mm512_set1_epi32(four));
  }
}

// Adds a tile's products with W columns to `sum`; E3M2: those of the low digits to `low_sum`.
template <Type type, int W>
inline __attribute__((always_inline)) void dot_tile(const std::uint8_t* tile, const PanelBlocks<W>& panel, __m512i (&sum)[W],
                                                    __m512i (&low_sum)[W]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* from = tile + half * half_bytes;
    __m512i plane[4] = {load(from), load(from + group_places), load(from + 2 * group_places)};
    plane[3] = fourth_group(plane[0], plane[1], plane[2]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const int group = 4 * half + j;
      if constexpr (type == Type::e2m3) {
        dot_group<W>(_mm512_permutexvar_epi8(plane[j], load(e2m3_table.entry)), panel, group, sum);
      } else {
        dot_group<W>(_mm512_permutexvar_epi8(plane[j], load(e3m2_high.entry)), panel, group, sum);
        dot_group<W>(_mm512_permutexvar_epi8(plane[j], load(e3m2_low.entry)), panel, group, low_sum);
      }
    }
  }
}

// B bands times W columns.
template <Type type, int W, int B>
void bands_times_columns(const std::uint8_t* bands, std::int64_t blocks, PanelBlocks<W> panel, float* out, std::int64_t ldo) {
  const std::int64_t band_bytes = blocks * tile_bytes;
  __m512 acc[B][W];
  for (int b = 0; b < B; ++b) {
    for (int c = 0; c < W; ++c) acc[b][c] = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < blocks; ++block, bands += tile_bytes, panel.advance()) {
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
      const std::uint8_t* tile = bands + b * band_bytes;
      __m512i sum[W], low_sum[W];
      for (int c = 0; c < W; ++c) {
        sum[c] = _mm512_set1_epi32(panel.template number<std::int32_t>(c, 1));
        low_sum[c] = _mm512_setzero_si512();
      }
      prefetch_ahead<W, B>(tile);
      dot_tile<type, W>(tile, panel, sum, low_sum);
      const __m512 weight_scale = weight_scales(tile);
#pragma GCC unroll 16
      for (int c = 0; c < W; ++c) {
        if constexpr (type == Type::e3m2) sum[c] = _mm512_add_epi32(_mm512_slli_epi32(sum[c], 4), low_sum[c]);
        const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_set1_ps(panel.template number<float>(c, 0)));
        acc[b][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[c]), scale, acc[b][c]);
      }
    }
  }
  for (int b = 0; b < B; ++b) {
    for (int c = 0; c < W; ++c) _mm512_storeu_ps(out + c * ldo + b * tile_rows, acc[b][c]);
  }
}

// A band larger than L1 evicts the activations before the next band needs them. So with few columns, several bands are
// multiplied at once; with more, there are not enough registers and the effect is smaller.
constexpr std::int64_t long_band_bytes = 28 << 10;
constexpr int bands_at_once(int W) { return W <= 2 ? 4 : 1; }

template <Type type, int W>
void all_bands_times_columns(const std::uint8_t* bands, std::int64_t count, std::int64_t blocks, const char* group, float* out,
                             std::int64_t ldo) {
  const PanelBlocks<W> panel{group, group + blocks * PanelBlocks<W>::first_width * panel_block_bytes};
  constexpr int B = bands_at_once(W);
  const std::int64_t band_bytes = blocks * tile_bytes;
  std::int64_t band = 0;
  if (B > 1 && band_bytes > long_band_bytes) {
    for (; band + B <= count; band += B) {
      bands_times_columns<type, W, B>(bands + band * band_bytes, blocks, panel, out + band * tile_rows, ldo);
    }
  }
  for (; band < count; ++band) {
    bands_times_columns<type, W, 1>(bands + band * band_bytes, blocks, panel, out + band * tile_rows, ldo);
  }
}

// Columns per decoding of a tile: two groups; one for E3M2, whose two sums per column need the registers.
template <Type type>
constexpr int most_columns = type == Type::e2m3 ? 2 * panel_width : panel_width;

using AllBandsTimesColumns = void (*)(const std::uint8_t*, std::int64_t, std::int64_t, const char*, float*, std::int64_t);

template <Type type, int W>
constexpr AllBandsTimesColumns for_width() {
  if constexpr (W >= 1 && W <= most_columns<type>) return all_bands_times_columns<type, W>;
  else return nullptr;
}

template <Type type>
constexpr AllBandsTimesColumns by_width[2 * panel_width + 1] = {
    for_width<type, 0>(),  for_width<type, 1>(),  for_width<type, 2>(),  for_width<type, 3>(),  for_width<type, 4>(),
    for_width<type, 5>(),  for_width<type, 6>(),  for_width<type, 7>(),  for_width<type, 8>(),  for_width<type, 9>(),
    for_width<type, 10>(), for_width<type, 11>(), for_width<type, 12>(), for_width<type, 13>(), for_width<type, 14>(),
    for_width<type, 15>(), for_width<type, 16>(),
};

// Bands that stay in L2 while successive columns are multiplied by them.
constexpr std::int64_t bands_per_pass = 4;

// Decoding overlaps with the dot products (it uses other execution ports), so tiles are decoded again for every most_columns
// columns, and no scratch memory is needed.
template <Type type>
void matmul_as(const std::uint8_t* tiles, std::int64_t k, const char* panel, std::int64_t n, std::int64_t band_begin, std::int64_t band_end,
               float* out, std::int64_t ldo) {
  const std::int64_t blocks = k / block_size;
  for (std::int64_t first = band_begin; first < band_end; first += bands_per_pass) {
    const std::int64_t last = band_end - first < bands_per_pass ? band_end : first + bands_per_pass;
    for (std::int64_t column = 0, width; column < n; column += width) {
      width = n - column < most_columns<type> ? n - column : most_columns<type>;
      const char* group = panel + panel_block(n, k, column, 0).codes;
      by_width<type>[width](tiles + first * blocks * tile_bytes, last - first, blocks, group, out + column * ldo + first * tile_rows, ldo);
    }
  }
}

void matmul(Type type, const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
            std::int64_t band_end, float* out, std::int64_t ldo, void*) noexcept {
  const auto run = type == Type::e2m3 ? matmul_as<Type::e2m3> : matmul_as<Type::e3m2>;
  run(tiles, k, static_cast<const char*>(panel), n, band_begin, band_end, out, ldo);
}

void quantize(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
              std::int64_t block_end, void* panel) noexcept {
  char* base = static_cast<char*>(panel);
  const float unit = type == Type::e2m3 ? 0x1p-3f : 0x1p-4f;
  const __m512i magnitude_mask = _mm512_set1_epi32(0x7fffffff);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    const __m512 a = _mm512_loadu_ps(x + block * block_size), b = _mm512_loadu_ps(x + block * block_size + 16);
    // As integers, magnitudes order NaN and infinity above every finite value.
    const __m512i larger = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude_mask),
                                            _mm512_and_si512(_mm512_castps_si512(b), magnitude_mask));
    const std::int32_t largest_bits = _mm512_reduce_max_epi32(larger);
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof largest);
    const bool finite = largest_bits < 0x7f800000;
    const bool zero = !finite || largest < tiny_block;
    const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : 127.0f / largest);
    const __mmask16 keep = zero ? 0 : 0xFFFF;
    const __m512i qa = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(a, inverse));
    const __m512i qb = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(b, inverse));
    const float scale = !finite ? __builtin_nanf("") : zero ? unit : largest / 127.0f * unit;
    const std::int32_t correction = -weight_offset * _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
    const PanelBlock at = panel_block(n, k, column, block);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(base + at.codes), _mm512_cvtepi32_epi8(qa));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(base + at.codes + 16), _mm512_cvtepi32_epi8(qb));
    __builtin_memcpy(base + at.scale, &scale, sizeof scale);
    __builtin_memcpy(base + at.correction, &correction, sizeof correction);
  }
}

// Looks byte i of every lane up in the table of 64 words and stores the word into the lane's upper half: the multiple as f32.
template <int i>
__m512 multiples_f32(__m512i codes, __m512i table_low, __m512i table_high) {
  const __m512i index = i < 2 ? _mm512_slli_epi32(codes, 16 - 8 * i) : _mm512_srli_epi32(codes, 8 * i - 16);
  return _mm512_castsi512_ps(_mm512_maskz_permutex2var_epi16(0xAAAAAAAA, table_low, index, table_high));
}

template <int W, int i>
inline __attribute__((always_inline)) void fma_column(__m512i codes, __m512i table_low, __m512i table_high, const float* x,
                                                      std::int64_t ldx, __m512 (&partial)[W][group_columns]) {
  const __m512 weights = multiples_f32<i>(codes, table_low, table_high);
  for (int c = 0; c < W; ++c) partial[c][i] = _mm512_fmadd_ps(weights, _mm512_set1_ps(x[c * ldx + i]), partial[c][i]);
}

template <int W>
void band_times_f32(Type type, const std::uint8_t* band, std::int64_t blocks, const float* x, std::int64_t ldx, float* out,
                    std::int64_t ldo) {
  const WordTable& words = type == Type::e2m3 ? e2m3_words : e3m2_words;
  const __m512i table_low = load(words.entry), table_high = load(words.entry + 32);
  const __m512 unit = _mm512_set1_ps(type == Type::e2m3 ? 0x1p-3f : 0x1p-4f);
  __m512 acc[W];
  for (int c = 0; c < W; ++c) acc[c] = _mm512_setzero_ps();
  for (std::int64_t block = 0; block < blocks; ++block, band += tile_bytes, x += block_size) {
    __m512 partial[W][group_columns];
    for (int c = 0; c < W; ++c) {
      for (int i = 0; i < group_columns; ++i) partial[c][i] = _mm512_setzero_ps();
    }
    prefetch_ahead<W, 1>(band);
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* from = band + half * half_bytes;
      __m512i plane[4] = {load(from), load(from + group_places), load(from + 2 * group_places)};
      plane[3] = fourth_group(plane[0], plane[1], plane[2]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float* at = x + (4 * half + j) * group_columns;
        fma_column<W, 0>(plane[j], table_low, table_high, at, ldx, partial);
        fma_column<W, 1>(plane[j], table_low, table_high, at, ldx, partial);
        fma_column<W, 2>(plane[j], table_low, table_high, at, ldx, partial);
        fma_column<W, 3>(plane[j], table_low, table_high, at, ldx, partial);
      }
    }
    const __m512 weight_scale = _mm512_mul_ps(weight_scales(band), unit);
    for (int c = 0; c < W; ++c) {
      const __m512 sum = _mm512_add_ps(_mm512_add_ps(partial[c][0], partial[c][1]), _mm512_add_ps(partial[c][2], partial[c][3]));
      acc[c] = _mm512_fmadd_ps(sum, weight_scale, acc[c]);
    }
  }
  for (int c = 0; c < W; ++c) _mm512_storeu_ps(out + c * ldo, acc[c]);
}

void matmul_f32(Type type, const std::uint8_t* tiles, std::int64_t k, const float* x, std::int64_t ldx, std::int64_t n,
                std::int64_t band_begin, std::int64_t band_end, float* out, std::int64_t ldo) noexcept {
  constexpr int widest = 4;
  constexpr decltype(&band_times_f32<1>) widths[] = {nullptr, band_times_f32<1>, band_times_f32<2>, band_times_f32<3>, band_times_f32<4>};
  const std::int64_t blocks = k / block_size;
  for (std::int64_t band = band_begin; band < band_end; ++band) {
    for (std::int64_t column = 0; column < n; column += widest) {
      const std::int64_t width = n - column < widest ? n - column : widest;
      widths[width](type, tiles + band * blocks * tile_bytes, blocks, x + column * ldx, ldx, out + column * ldo + band * tile_rows, ldo);
    }
  }
}

}  // namespace

extern const Kernels kernels_avx512_vnni_vbmi = {
    "avx512_vnni_vbmi",
    cpu::avx2 | cpu::fma | cpu::avx512f | cpu::avx512dq | cpu::avx512bw | cpu::avx512vl | cpu::avx512_vnni | cpu::avx512_vbmi, quantize,
    matmul, matmul_f32};

}  // namespace specdec::mxfp6
