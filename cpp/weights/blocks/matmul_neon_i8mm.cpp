// ARM kernels with the matrix instructions of ARMv8.6 (i8mm): smmla multiplies 8 columns of two rows of weights by
// those of two columns of activations, twice as much as sdot. An odd column uses sdot.
#include <arm_neon.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#include "weights/blocks/vectors_neon.h"

// 8 activations, from byte `at` on, of one column or of two.
SPECDEC_INLINE int8x8_t eight(const PanelBlock& x, int at) {
  return vld1_s8(reinterpret_cast<const std::int8_t*>(x.codes) + at);
}
SPECDEC_INLINE int8x16_t eight(const PanelBlock& first, const PanelBlock& second, int at) {
  return vcombine_s8(eight(first, at), eight(second, at));
}

// The pairs of rows 0, 1 and 2, 3 in 8 columns, from four rows in columns 0 to 3 and 4 to 7.
struct RowPairs {
  RowPairs(Codes low, Codes high)
      : first(vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(low), vreinterpretq_s32_s8(high)))),
        second(vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(low), vreinterpretq_s32_s8(high)))) {}
  Codes first, second;
};

template <Type type, int C, class Weights>
SPECDEC_INLINE void vector_sums(const Weights& weights, const PanelBlock* x, int group, int v, Ints (&sums)[C]) {
  constexpr int columns = format_of(type).group;
  Ints products[C / 2 + 1][2];  // of two columns: rows 0 and 1, 2 and 3
  Ints odd = vdupq_n_s32(0);    // of the last column, if their number is odd
#pragma GCC unroll 4
  for (int pair = 0; pair < C / 2; ++pair) products[pair][0] = products[pair][1] = vdupq_n_s32(0);
#pragma GCC unroll 4
  for (int at = 0; at < columns; at += 8) {
    const int four = (group * columns + at) / 4;
    const Codes low = weights.codes(four, v), high = weights.codes(four + 1, v);
    if constexpr (C > 1) {
      const RowPairs rows(low, high);
#pragma GCC unroll 4
      for (int pair = 0; pair < C / 2; ++pair) {
        const int8x16_t a = eight(x[2 * pair], x[2 * pair + 1], group * columns + at);
        products[pair][0] = vmmlaq_s32(products[pair][0], rows.first, a);
        products[pair][1] = vmmlaq_s32(products[pair][1], rows.second, a);
      }
    }
    if constexpr (C % 2 == 1) {
      const int8x8_t a = eight(x[C - 1], group * columns + at);
      odd = vdotq_lane_s32(vdotq_lane_s32(odd, low, a, 0), high, a, 1);
    }
  }
#pragma GCC unroll 4
  for (int pair = 0; pair < C / 2; ++pair) {
    sums[2 * pair] = vuzp1q_s32(products[pair][0], products[pair][1]);
    sums[2 * pair + 1] = vuzp2q_s32(products[pair][0], products[pair][1]);
  }
  if constexpr (C % 2 == 1) sums[C - 1] = odd;
  if constexpr (has_eighths(type)) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c] = vaddq_s32(sums[c], weights.start(x[c], group, v));
  }
}

template <Type type, int C, class Weights>
SPECDEC_INLINE void group_sums(const Weights& weights, const PanelBlock* x, int group,
                               Ints (&sums)[C][tile_rows / vector_rows]) {
#pragma GCC unroll 4
  for (int v = 0; v < tile_rows / vector_rows; ++v) {
    Ints vector[C];
    vector_sums<type, C>(weights, x, group, v, vector);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c][v] = vector[c];
  }
}

#include "weights/blocks/dot_products_neon.h"
#include "weights/blocks/matmul_kernel.h"

}  // namespace

const Kernels kernels_neon_i8mm = {"neon_i8mm", cpu::neon | cpu::dotprod | cpu::i8mm, pack_scalar, matmul};

}  // namespace specdec::blocks
