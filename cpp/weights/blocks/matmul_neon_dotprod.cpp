// ARM kernels with the dot product instructions of ARMv8.2.
#include <arm_neon.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#include "weights/blocks/vectors_neon.h"

template <Type type, int C, class Weights>
SPECDEC_INLINE void group_sums(const Weights& weights, const PanelBlock* x, int group, Ints (&sums)[C][tile_rows / vector_rows]) {
  constexpr int fours = format_of(type).group / 4, vectors_per_tile = tile_rows / vector_rows;
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors_per_tile; ++v) sums[c][v] = vdupq_n_s32(0);
  }
#pragma GCC unroll 8
  for (int i = 0; i < fours; ++i) {
    Codes w[vectors_per_tile];
#pragma GCC unroll 4
    for (int v = 0; v < vectors_per_tile; ++v) w[v] = weights.codes(group * fours + i, v);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      std::int32_t four;
      __builtin_memcpy(&four, x[c].codes + group * format_of(type).group + 4 * i, sizeof four);
      const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
#pragma GCC unroll 4
      for (int v = 0; v < vectors_per_tile; ++v) sums[c][v] = vdotq_s32(sums[c][v], w[v], a);
    }
  }
}

#include "weights/blocks/matmul_kernel.h"

}  // namespace

// Few activations are packed for many weights.
const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, pack_scalar, matmul};

}  // namespace specdec::blocks
