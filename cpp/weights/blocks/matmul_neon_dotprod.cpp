// ARM kernels with the dot product instructions of ARMv8.2.
#include <arm_neon.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#include "weights/blocks/vectors_neon.h"

SPECDEC_INLINE Ints add_products(Ints sum, Codes w, Ints a) { return vdotq_s32(sum, w, vreinterpretq_s8_s32(a)); }

template <Type type, int C, class Weights>
SPECDEC_INLINE void vector_sums(const Weights& weights, const PanelBlock* x, int group, int v, Ints (&sums)[C]) {
  static_assert(format_of(type).group == 16);
  const Codes w[4] = {weights.codes(4 * group, v), weights.codes(4 * group + 1, v), weights.codes(4 * group + 2, v),
                      weights.codes(4 * group + 3, v)};
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const int8x16_t a = vld1q_s8(x[c].codes + 16 * group);
    sums[c] = vdotq_laneq_s32(vdotq_laneq_s32(vdupq_n_s32(0), w[0], a, 0), w[1], a, 1);
    sums[c] = vdotq_laneq_s32(vdotq_laneq_s32(sums[c], w[2], a, 2), w[3], a, 3);
  }
}

#include "weights/blocks/dot_products.h"
#include "weights/blocks/dot_products_neon.h"
#include "weights/blocks/matmul_kernel.h"

}  // namespace

// pack_scalar is fast enough: few activations are packed for many weights.
const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, pack_scalar, matmul};

}  // namespace specdec::blocks
