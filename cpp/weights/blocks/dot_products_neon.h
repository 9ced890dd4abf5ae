// scaled_sums of matmul_kernel.h for the ARM kernels. Included after group_sums.

template <Type type, int C, class Weights>
SPECDEC_INLINE void scaled_sums(const Weights& weights, const PanelBlock* x, Ints (&sums)[C][tile_rows / vector_rows]) {
  Ints second[C][tile_rows / vector_rows];
  group_sums<type, C>(weights, x, 0, sums);
  group_sums<type, C>(weights, x, 1, second);
#pragma GCC unroll 4
  for (int v = 0; v < tile_rows / vector_rows; ++v) {
    const Ints codes = weights.scale_codes(v);
    const Ints low = vshrq_n_s32(vshlq_n_s32(codes, 16), 16), high = vshrq_n_s32(codes, 16);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c][v] = vmlaq_s32(vmulq_s32(sums[c][v], low), second[c][v], high);
  }
}
