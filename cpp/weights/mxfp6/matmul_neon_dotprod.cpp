// NEON kernels with the dot product instructions of ARMv8.2.
//
// tbl with four registers is a table of 64 bytes, which maps codes to signed multiples. A decoded tile has, for each
// quad of rows and half of the columns, four registers (one per group of 4 columns); sdot by lane multiplies them by
// the 16 activations of that half in one register.
#include <arm_neon.h>

#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

constexpr int quads = tile_rows / 4;
constexpr int half_columns = tile_columns / 2;

constexpr int decoded_bytes = tile_rows * tile_columns;  // [half][quad][group of the half][4 rows][4 columns]

struct ByteTable {
  alignas(64) std::int8_t entry[num_codes];
};

constexpr ByteTable make_weight_table() {
  ByteTable table{};
  for (int code = 0; code < num_codes; ++code) table.entry[code] = static_cast<std::int8_t>(code_multiple(code));
  return table;
}

constexpr ByteTable weight_table = make_weight_table();

SPECDEC_INLINE void decode_codes(uint8x16_t codes, std::int8_t* to) {
  vst1q_s8(to, vqtbl4q_s8(vld1q_s8_x4(weight_table.entry), codes));
}

SPECDEC_INLINE void decode_tile(const std::uint8_t* tile, std::int8_t* decoded) {
  const uint8x16_t six_bits = vdupq_n_u8(63);
  for (int half = 0; half < 2; ++half) {
    for (int quad = 0; quad < quads; ++quad, decoded += 64) {
      const std::uint8_t* from = tile + half * half_bytes + 16 * quad;
      const uint8x16_t plane[3] = {vld1q_u8(from), vld1q_u8(from + group_places), vld1q_u8(from + 2 * group_places)};
      for (int j = 0; j < 3; ++j) decode_codes(vandq_u8(plane[j], six_bits), decoded + 16 * j);
      const uint8x16_t low = vshrq_n_u8(plane[0], 6);
      const uint8x16_t middle = vandq_u8(vshrq_n_u8(plane[1], 4), vdupq_n_u8(0x0C));
      const uint8x16_t top = vandq_u8(vshrq_n_u8(plane[2], 2), vdupq_n_u8(0x30));
      decode_codes(vorrq_u8(vorrq_u8(low, middle), top), decoded + 3 * 16);
    }
  }
}

constexpr int prefetch_bytes = 12 * tile_bytes;

// Prefetches into L2.
SPECDEC_INLINE void prefetch_tile(const std::uint8_t* tile) {
  for (int line = 0; line < tile_bytes; line += 64) __builtin_prefetch(tile + prefetch_bytes + line, 0, 2);
}

// Scales of a quad of rows.
SPECDEC_INLINE float32x4_t weight_scales(const std::uint8_t* tile, int quad) {
  std::uint32_t four;
  __builtin_memcpy(&four, tile + tile_code_bytes + 4 * quad, sizeof four);
  const uint16x8_t words = vmovl_u8(vcreate_u8(four));
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(words)), 23));
}

// Products of a quad of rows with W columns.
template <int W>
SPECDEC_INLINE void dot_quad(const std::int8_t* weights, const std::int8_t* codes, int quad, int32x4_t (&sum)[W]) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::int8_t* at = weights + (half * quads + quad) * 64;
    const int8x16_t w0 = vld1q_s8(at), w1 = vld1q_s8(at + 16), w2 = vld1q_s8(at + 32), w3 = vld1q_s8(at + 48);
#pragma GCC unroll 8
    for (int c = 0; c < W; ++c) {
      const int8x16_t a = vld1q_s8(codes + c * block_size + half * half_columns);
      sum[c] = vdotq_laneq_s32(sum[c], w0, a, 0);
      sum[c] = vdotq_laneq_s32(sum[c], w1, a, 1);
      sum[c] = vdotq_laneq_s32(sum[c], w2, a, 2);
      sum[c] = vdotq_laneq_s32(sum[c], w3, a, 3);
    }
  }
}

template <int W>
SPECDEC_INLINE void accumulate_quad(const std::uint8_t* tile, const std::int8_t* decoded, const char* group, int quad,
                                    float32x4_t (&acc)[W][quads]) {
  int32x4_t sum[W];
  for (int c = 0; c < W; ++c) sum[c] = vdupq_n_s32(0);
  dot_quad<W>(decoded, reinterpret_cast<const std::int8_t*>(group), quad, sum);
  const float* scales = reinterpret_cast<const float*>(group + W * block_size);
  const float32x4_t weight_scale = weight_scales(tile, quad);
  for (int c = 0; c < W; ++c) {
    acc[c][quad] = vfmaq_f32(acc[c][quad], vcvtq_f32_s32(sum[c]), vmulq_n_f32(weight_scale, scales[c]));
  }
}

template <int W>
SPECDEC_INLINE void accumulate_tile(const std::uint8_t* tile, const std::int8_t* decoded, const char* group,
                                    float32x4_t (&acc)[W][quads]) {
#pragma GCC unroll 4
  for (int quad = 0; quad < quads; ++quad) accumulate_quad<W>(tile, decoded, group, quad, acc);
}

template <int W>
SPECDEC_INLINE void store_columns(const float32x4_t (&acc)[W][quads], float* out, std::int64_t ldo) {
  for (int c = 0; c < W; ++c) {
    for (int quad = 0; quad < quads; ++quad) vst1q_f32(out + c * ldo + 4 * quad, acc[c][quad]);
  }
}

template <int W>
void band_times_group(const std::uint8_t* band, const std::int8_t*, std::int64_t blocks, const char* group, float* out,
                      std::int64_t ldo) {
  alignas(16) std::int8_t decoded[decoded_bytes];
  float32x4_t acc[W][quads] = {};
  for (std::int64_t block = 0; block < blocks; ++block, band += tile_bytes, group += W * panel_block_bytes) {
    prefetch_tile(band);
    decode_tile(band, decoded);
    accumulate_tile<W>(band, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

template <int W>
void decoded_times_group(const std::uint8_t* band, const std::int8_t* decoded, std::int64_t blocks, const char* group,
                         float* out, std::int64_t ldo) {
  float32x4_t acc[W][quads] = {};
  for (std::int64_t block = 0; block < blocks;
       ++block, band += tile_bytes, decoded += decoded_bytes, group += W * panel_block_bytes) {
    accumulate_tile<W>(band, decoded, group, acc);
  }
  store_columns<W>(acc, out, ldo);
}

void decode_band(const std::uint8_t* band, std::int64_t blocks, std::int8_t* decoded) {
  for (std::int64_t block = 0; block < blocks; ++block) {
    prefetch_tile(band + block * tile_bytes);
    decode_tile(band + block * tile_bytes, decoded + block * decoded_bytes);
  }
}

using Decoded = std::int8_t;

#include "weights/mxfp6/matmul_bands.h"

void quantize(const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
              std::int64_t block_end, void* panel) noexcept {
  char* base = static_cast<char*>(panel);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    float32x4_t value[8];
    uint32x4_t largest_lanes = vdupq_n_u32(0);
    for (int i = 0; i < 8; ++i) {
      value[i] = vld1q_f32(x + block * block_size + 4 * i);
      // As integers, magnitudes order NaN and infinity above every finite value.
      largest_lanes = vmaxq_u32(largest_lanes, vbicq_u32(vreinterpretq_u32_f32(value[i]), vdupq_n_u32(0x80000000u)));
    }
    const std::uint32_t largest_bits = vmaxvq_u32(largest_lanes);
    float largest;
    __builtin_memcpy(&largest, &largest_bits, sizeof largest);
    const bool finite = largest_bits < 0x7f800000u;
    const bool zero = !finite || largest < tiny_block;
    const float inverse = zero ? 0.0f : 127.0f / largest;
    const int32x4_t keep = vdupq_n_s32(zero ? 0 : -1);
    int32x4_t rounded[8], sum = vdupq_n_s32(0);
    for (int i = 0; i < 8; ++i) {
      rounded[i] = vandq_s32(keep, vcvtnq_s32_f32(vmulq_n_f32(value[i], inverse)));
      sum = vaddq_s32(sum, rounded[i]);
    }
    const PanelBlock at = panel_block(n, k, column, block);
    for (int i = 0; i < 8; i += 2) {
      const int16x8_t words = vcombine_s16(vmovn_s32(rounded[i]), vmovn_s32(rounded[i + 1]));
      vst1_s8(reinterpret_cast<std::int8_t*>(base + at.codes + 4 * i), vmovn_s16(words));
    }
    store_numbers(!finite ? __builtin_nanf("") : zero ? 0.0f : largest / 127.0f, vaddvq_s32(sum), at, base);
  }
}

}  // namespace

extern const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, quantize, matmul};

}  // namespace specdec::mxfp6
