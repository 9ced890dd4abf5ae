// group_sums of matmul_kernel.h for CPUs with an instruction that adds four products of bytes to every int32. The
// including file defines
//   add_products(sum, w, a)       sum + w * a, where w is unsigned (code - lowest) or signed (the code)
//   broadcast_ints
//   signed_bytes<type>            whether w is signed

// Adds the products of a group.
template <Type type, int C, class Weights>
SPECDEC_INLINE void add_group(const Weights& weights, const PanelBlock* x, int group,
                              Ints (&sums)[C][tile_rows / vector_rows]) {
  constexpr int fours = Weights::group_size / 4, vectors_per_tile = tile_rows / vector_rows;
#pragma GCC unroll 8
  for (int i = 0; i < fours; ++i) {
    Codes w[vectors_per_tile];
#pragma GCC unroll 4
    for (int v = 0; v < vectors_per_tile; ++v) w[v] = weights.codes(group * fours + i, v);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      std::int32_t four;
      __builtin_memcpy(&four, x[c].codes + group * Weights::group_size + 4 * i, sizeof four);
      const Ints a = broadcast_ints(four);
#pragma GCC unroll 4
      for (int v = 0; v < vectors_per_tile; ++v) sums[c][v] = add_products(sums[c][v], w[v], a);
    }
  }
}

template <Type type, int C, class Weights>
SPECDEC_INLINE void group_sums(const Weights& weights, const PanelBlock* x, int group,
                               Ints (&sums)[C][tile_rows / vector_rows]) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 4
    for (int v = 0; v < tile_rows / vector_rows; ++v) sums[c][v] = weights.start(x[c], group, v);
  }
  add_group<type, C>(weights, x, group, sums);
}
