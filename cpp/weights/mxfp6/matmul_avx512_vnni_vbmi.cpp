// AVX-512 kernels with VNNI and VBMI.
//
// vpermb looks 64 codes up in a table of 64 bytes by their low 6 bits: one instruction turns codes into unsigned
// weights value * 8 + 64. vpdpbusd multiplies them by int8 activations, 16 rows per register, 4 columns per lane.
// Starting the sum at -64 * sum(activations) removes the offset.
#include <immintrin.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

struct ByteTable {
  alignas(64) std::uint8_t entry[num_codes];
};

constexpr ByteTable make_weight_table() {
  ByteTable table{};
  for (int code = 0; code < num_codes; ++code) {
    table.entry[code] = static_cast<std::uint8_t>(code_multiple(code) + weight_offset);
  }
  return table;
}

constexpr ByteTable weight_table = make_weight_table();

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

// Prefetch distance in tiles, into L2: in L1 the weights would evict the activations. For one column, and for several
// bands at once, the hardware prefetcher is enough.
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

  const char* codes(int c) const {
    return c < first_width ? first + c * block_size : second + (c - first_width) * block_size;
  }
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
SPECDEC_INLINE void dot_group(__m512i weights, const PanelBlocks<W>& panel, int group, __m512i (&sum)[W]) {
#pragma GCC unroll 16
  for (int c = 0; c < W; ++c) {
    std::int32_t four;
    __builtin_memcpy(&four, panel.codes(c) + group * group_columns, sizeof four);
    sum[c] = _mm512_dpbusd_epi32(sum[c], weights, _mm512_set1_epi32(four));
  }
}

// Adds a tile's products with W columns to `sum`.
template <int W>
SPECDEC_INLINE void dot_tile(const std::uint8_t* tile, const PanelBlocks<W>& panel, __m512i (&sum)[W]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* from = tile + half * half_bytes;
    __m512i plane[4] = {load(from), load(from + group_places), load(from + 2 * group_places)};
    plane[3] = fourth_group(plane[0], plane[1], plane[2]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      dot_group<W>(_mm512_permutexvar_epi8(plane[j], load(weight_table.entry)), panel, 4 * half + j, sum);
    }
  }
}

// B bands times W columns.
template <int W, int B>
void bands_times_columns(const std::uint8_t* bands, std::int64_t blocks, PanelBlocks<W> panel, float* out,
                         std::int64_t ldo) {
  const std::int64_t band_bytes = blocks * tile_bytes;
  __m512 acc[B][W];
  for (int b = 0; b < B; ++b) {
    for (int c = 0; c < W; ++c) acc[b][c] = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < blocks; ++block, bands += tile_bytes, panel.advance()) {
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
      const std::uint8_t* tile = bands + b * band_bytes;
      __m512i sum[W];
      for (int c = 0; c < W; ++c) sum[c] = _mm512_set1_epi32(panel.template number<std::int32_t>(c, 1));
      prefetch_ahead<W, B>(tile);
      dot_tile<W>(tile, panel, sum);
      const __m512 weight_scale = weight_scales(tile);
#pragma GCC unroll 16
      for (int c = 0; c < W; ++c) {
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

template <int W>
void all_bands_times_columns(const std::uint8_t* bands, std::int64_t count, std::int64_t blocks, const char* group,
                             float* out, std::int64_t ldo) {
  const PanelBlocks<W> panel{group, group + blocks * PanelBlocks<W>::first_width * panel_block_bytes};
  constexpr int B = bands_at_once(W);
  const std::int64_t band_bytes = blocks * tile_bytes;
  std::int64_t band = 0;
  if (B > 1 && band_bytes > long_band_bytes) {
    for (; band + B <= count; band += B) {
      bands_times_columns<W, B>(bands + band * band_bytes, blocks, panel, out + band * tile_rows, ldo);
    }
  }
  for (; band < count; ++band) {
    bands_times_columns<W, 1>(bands + band * band_bytes, blocks, panel, out + band * tile_rows, ldo);
  }
}

constexpr int most_columns = 2 * panel_width;  // per decoding of a tile

using AllBandsTimesColumns = void (*)(const std::uint8_t*, std::int64_t, std::int64_t, const char*, float*,
                                      std::int64_t);

// By width; entry 0 is not used.
constexpr AllBandsTimesColumns by_width[most_columns + 1] = {
    nullptr,
    all_bands_times_columns<1>,
    all_bands_times_columns<2>,
    all_bands_times_columns<3>,
    all_bands_times_columns<4>,
    all_bands_times_columns<5>,
    all_bands_times_columns<6>,
    all_bands_times_columns<7>,
    all_bands_times_columns<8>,
    all_bands_times_columns<9>,
    all_bands_times_columns<10>,
    all_bands_times_columns<11>,
    all_bands_times_columns<12>,
    all_bands_times_columns<13>,
    all_bands_times_columns<14>,
    all_bands_times_columns<15>,
    all_bands_times_columns<16>,
};

// Bands that stay in L2 while successive columns are multiplied by them.
constexpr std::int64_t bands_per_pass = 4;

// Decoding overlaps with the dot products (it uses other execution ports), so tiles are decoded again for every
// most_columns columns, and no scratch memory is needed.
void matmul(const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
            std::int64_t band_end, float* out, std::int64_t ldo, void*) noexcept {
  const std::int64_t blocks = k / block_size;
  for (std::int64_t first = band_begin; first < band_end; first += bands_per_pass) {
    const std::int64_t last = band_end - first < bands_per_pass ? band_end : first + bands_per_pass;
    for (std::int64_t column = 0, width; column < n; column += width) {
      width = n - column < most_columns ? n - column : most_columns;
      const char* group = static_cast<const char*>(panel) + panel_block(n, k, column, 0).codes;
      by_width[width](tiles + first * blocks * tile_bytes, last - first, blocks, group,
                      out + column * ldo + (first - band_begin) * tile_rows, ldo);
    }
  }
}

#include "weights/mxfp6/quantize_x86.h"

}  // namespace

extern const Kernels kernels_avx512_vnni_vbmi = {"avx512_vnni_vbmi",
                                                 cpu::avx2 | cpu::fma | cpu::avx512f | cpu::avx512dq | cpu::avx512bw |
                                                     cpu::avx512vl | cpu::avx512_vnni | cpu::avx512_vbmi,
                                                 quantize, matmul};

}  // namespace specdec::mxfp6
