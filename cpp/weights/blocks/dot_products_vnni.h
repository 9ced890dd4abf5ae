// scaled_sums and fold_tile of matmul_kernel.h for the x86 sets with dot products of bytes: 16 products fit 16 bits, so
// that both groups' sums are halves of an int32, which one instruction multiplies by both scale codes and adds.
// Included after dot_products.h. The including file also defines
//   columns_with_two_sums      up to how many columns registers hold a sum of each group
//   shifted_up(ints)           by 16 bits
//   in_pairs(low, high)        the low 16 bits of both
//   low_twice(v), high_twice(v)
//   pairs_added(a, b), low_products(a, b), pair_products(a, b) (sums of two), of int16

template <int C>
SPECDEC_INLINE void clear(Ints (&sums)[C][tile_rows / vector_rows]) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (Ints& sum : sums[c]) sum = broadcast_ints(0);
  }
}

template <Type type, int C, class Weights>
SPECDEC_INLINE void scaled_sums(const Weights& weights, const PanelBlock* x, Ints (&sums)[C][tile_rows / vector_rows]) {
  constexpr int vectors_per_tile = tile_rows / vector_rows;
  constexpr bool is_corrected = format_of(type).lowest != 0;
  clear(sums);
  add_group<type, C>(weights, x, 1, sums);
  if constexpr (C <= columns_with_two_sums) {
    Ints low[C][vectors_per_tile];
    clear(low);
    add_group<type, C>(weights, x, 0, low);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors_per_tile; ++v) {
        sums[c][v] = in_pairs(low[c][v], sums[c][v]);
        if constexpr (is_corrected) sums[c][v] = pairs_added(sums[c][v], broadcast_ints(x[c].corrections[1]));
      }
    }
  } else {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
      for (Ints& sum : sums[c])
        sum = added(shifted_up(sum), broadcast_ints(is_corrected ? x[c].corrections[2] : 0x8000));
    }
    add_group<type, C>(weights, x, 0, sums);
    // sum 1 * 65536 + sum 0 + 32768: without the last term a negative sum 0 would borrow from the upper half. Flipping
    // bit 15 takes it away from the lower half alone. Corrected before, because code - lowest may exceed 16 bits.
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
      for (Ints& sum : sums[c]) sum = flipped(sum, broadcast_ints(0x8000));
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < vectors_per_tile; ++v) {
    const Ints scale_codes = weights.scale_codes(v);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[c][v] = pair_products(sums[c][v], scale_codes);
  }
}

SPECDEC_INLINE Ints broadcast_twice(int word) {
  return broadcast_ints(static_cast<std::int32_t>((static_cast<std::uint32_t>(word) & 0xFFFF) * 0x10001));
}

constexpr bool multiplies_sums = false;
template <Type type>
constexpr std::int64_t folding_pays = folds(type) ? 16 : INT64_MAX;

// Bytes become code * scale code; Q3_K: -code * scale code - lowest_folded, with the scale negated. Two of them are
// multiplied at once: a + 256 b is exact modulo 65536, since the results fit bytes, too.
template <Type type>
void fold_tile(DecodedTile& tile, std::int64_t blocks32) {
  constexpr int lowest = lowest_folded(type);
  for (std::int64_t block = 0; block < blocks32; ++block) {
#pragma GCC unroll 2
    for (int v = 0; v < tile_rows / vector_rows; ++v) {
      std::uint8_t* codes = tile.codes[8 * block][v * vector_rows];
      float* scale = tile.scale[block] + v * vector_rows;
      const Ints scale_codes = load_ints(tile.scale_codes[block] + v * vector_rows);
      const auto fold_group = [&](Ints factor, int first) {
        // -code * factor - lowest = -stored * factor + (format's lowest * factor - lowest)
        Ints rest = broadcast_ints(0);
        if constexpr (lowest != 0) {
          factor = low_products(factor, broadcast_ints(-1));
          rest = low_products(factor, broadcast_twice(format_of(type).lowest * 257));
          rest = pairs_added(rest, broadcast_twice(-lowest * 257));
        }
        for (int four = first; four < first + 4; ++four) {
          std::uint8_t* at = codes + four * 4 * tile_rows;
          store_codes(at, pairs_added(low_products(load_codes(at), factor), rest));
        }
      };
      fold_group(low_twice(scale_codes), 0);
      fold_group(high_twice(scale_codes), 4);
      if constexpr (lowest != 0) store_floats(scale, negative(load_floats(scale)));
    }
  }
}
