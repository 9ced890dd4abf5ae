// scaled_sums of matmul_kernel.h for the ARM kernels, a vector of rows at a time: registers do not hold two sums for
// every vector. Included after
//   vector_sums<type, C>(weights, x, group, v, sums)   the exact sums of a group of 16 columns for vector v

template <Type type, int C, class Weights>
SPECDEC_INLINE void scaled_sums(const Weights& weights, const PanelBlock* x, Ints (&sums)[C][tile_rows / vector_rows]) {
#pragma GCC unroll 4
  for (int v = 0; v < tile_rows / vector_rows; ++v) {
    Ints first[C], second[C];
    vector_sums<type, C>(weights, x, 0, v, first);
    vector_sums<type, C>(weights, x, 1, v, second);
    const Ints codes = weights.scale_codes(v);
    const Ints low = vshrq_n_s32(vshlq_n_s32(codes, 16), 16), high = vshrq_n_s32(codes, 16);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[c][v] = vmlaq_s32(vmulq_s32(first[c], low), second[c], high);
  }
}
