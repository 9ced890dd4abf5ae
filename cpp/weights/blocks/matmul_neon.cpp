// ARM kernels with the dot product instructions: signed codes as they are, four rows in a register.
#include <arm_neon.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

constexpr int columns_at_once = 4;
constexpr int vectors = tile_rows / 4;

// Decodes by the plain statement of the layouts: few columns would gain from more.
template <Type type>
void decode_tile(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t blocks, const std::uint8_t*, Tile& tile) {
  constexpr Format format = format_of(type);
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (int row = 0; row < tile_rows; ++row) {
      for (int part = 0; part < format.columns / 32; ++part) {
        const Weights32 weights = decode(type, w + row * row_bytes + block * format.bytes, part);
        const std::int64_t column = block * format.columns + 32 * part, group = column / format.group;
        for (int i = 0; i < 8; ++i) __builtin_memcpy(tile.codes[column / 4 + i][row], weights.code + 4 * i, 4);
        for (int i = 0; i < 32 / format.group; ++i) {
          tile.scale[group + i][row] = weights.scale[i];
          tile.offset[group + i][row] = weights.offset[i];
        }
      }
    }
  }
}

template <Type type, int C>
void multiply_columns(const Tile& tile, std::int64_t blocks32, const PanelBlock* x, std::int64_t width, float* sums) {
  constexpr Format format = format_of(type);
  float32x4_t acc[C][vectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < vectors; ++v) acc[c][v] = vld1q_f32(sums + c * tile_rows + 4 * v);
  }
  const std::int8_t* codes = reinterpret_cast<const std::int8_t*>(&tile.codes[0][0][0]);
  const float *scale = tile.scale[0], *offset = tile.offset[0];
  for (std::int64_t block = 0; block < blocks32; ++block, x += width) {
    for (int group = 0; group < block_size / format.group; ++group) {
      int32x4_t exact[C][vectors];
      for (int c = 0; c < C; ++c) {
        for (int v = 0; v < vectors; ++v) exact[c][v] = vdupq_n_s32(0);
      }
      for (int i = 0; i < format.group / 4; ++i) {
        int8x16_t w[vectors];
        for (int v = 0; v < vectors; ++v) w[v] = vld1q_s8(codes + i * 4 * tile_rows + 16 * v);
        for (int c = 0; c < C; ++c) {
          std::int32_t four;
          __builtin_memcpy(&four, x[c].codes + group * format.group + 4 * i, sizeof four);
          const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
          for (int v = 0; v < vectors; ++v) exact[c][v] = vdotq_s32(exact[c][v], w[v], a);
        }
      }
      for (int v = 0; v < vectors; ++v) {
        const float32x4_t weight_scale = vld1q_f32(scale + 4 * v);
        for (int c = 0; c < C; ++c) acc[c][v] = vfmaq_f32(acc[c][v], vcvtq_f32_s32(exact[c][v]), vmulq_n_f32(weight_scale, x[c].scale));
        if constexpr (format.offsets) {
          const float32x4_t weight_offset = vld1q_f32(offset + 4 * v);
          for (int c = 0; c < C; ++c) acc[c][v] = vfmaq_n_f32(acc[c][v], weight_offset, x[c].sums[group]);
        }
      }
      codes += format.group * tile_rows;
      scale += tile_rows;
      offset += tile_rows;
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < vectors; ++v) vst1q_f32(sums + c * tile_rows + 4 * v, acc[c][v]);
  }
}

#include "weights/blocks/matmul_kernel.h"

}  // namespace

// Few activations are packed for many weights.
const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, pack_scalar, matmul};

}  // namespace specdec::blocks
