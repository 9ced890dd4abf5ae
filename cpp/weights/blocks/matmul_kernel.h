// The loops over rows, tiles and columns; included by one file per instruction set, which defines in an anonymous
// namespace
//   columns_at_once            the most columns that multiply_columns takes; a divisor of panel_width
//   repeats_in_registers       how often a tile may be decoded before storing it pays
//   slow_repeats_in_registers  the same for tiles with codes of two planes or two scales to convert for 32 columns
//   vector_rows                rows in a vector
//   Codes, Ints, Floats        vectors of four codes, one sum, one number per row, with load_codes, store_codes,
//                              load_ints, store_ints, load_floats, store_floats, load_halves (F16), load_bfloats
//                              (BF16), load_bytes (int8 to int32), as_codes (Ints), broadcast_ints, negative,
//                              broadcast, to_floats, multiplied (a * b), fused (a * b + c), either (a | b)
//   by_sign(p, negative, positive)
//                              one of two numbers for every row, by the sign of an int8
//   load_pairs(p)              int8 of two groups [2][16] as pairs of int16
//   field(codes, shift, mask)  bits of every byte after a shift to the right, or by a negative number to the left
//   finished<type>(codes)      from stored codes to those that group_sums multiplies
//   group_sums<type, C>(weights, x, group, sums)
//                              sums[c][v] = exact sums of a group of Weights::group_size columns, from weights.start()
//                              on
//   scaled_sums<type, C>(weights, x, sums)
//                              sums[c][v] = both groups' times their scale codes, of types that add groups
//   multiplies_sums            whether Weights::factor costs nothing
//   folding_pays<type>         from how many columns on; if there is such a number,
//   fold_tile<type>(tile, blocks32)
//                              multiplies codes by scale codes, for FoldedWeights
//   decode_tile<type>(w, row_bytes, blocks, ahead, tile)
//                              16 rows of `blocks` blocks of the type; as many bytes from `ahead` on are read next and
//                              may be fetched
//   stream_row(out, row), finish_streams()
//                              stores 16 numbers past the caches, at a place aligned to 64 bytes
// Everything here has internal linkage, so that the linker cannot share it between instruction sets.

constexpr int vectors = tile_rows / vector_rows;
constexpr int vector_bytes = 4 * vector_rows;  // of 4 columns
constexpr int prefetch_bytes = 6144;           // distance; 2304 to 9216 are equally good with AVX2

// If a whole product has at least this many outputs, they bypass the caches: their lines are in the caches of other
// cores, which have read the last product there, and waiting for a line takes as long as multiplying a few columns.
// Fewer outputs are read again soon.
constexpr std::int64_t streamed_outputs = 8192;

template <Type type>
constexpr int groups_of_part = block_size / format_of(type).group;
template <Type type>
constexpr int scales_of_part = adds_groups(type) ? 1 : groups_of_part<type>;

// What kernels that store code - lowest add to a group's sum.
template <Type type>
SPECDEC_INLINE Ints correction(const PanelBlock& x, int group) {
  return broadcast_ints(!signed_bytes<type> && format_of(type).lowest != 0 ? x.corrections[group] : 0);
}

// Weights of a DecodedTile, 32 columns at a time. `span`: the largest code, from 0 on; `factor`: of sums of products.
template <Type type>
class DecodedWeights {
 public:
  explicit DecodedWeights(const DecodedTile& tile)
      : codes_(&tile.codes[0][0][0]),
        scale_(tile.scale[0]),
        offset_(tile.offset[0]),
        scale_codes_(tile.scale_codes[0]) {}
  static constexpr int parts = 1, group_size = format_of(type).group;
  static constexpr bool scales_integers = adds_groups(type);
  static constexpr int factor = 1;
  static constexpr int span =
      has_eighths(type) ? highest_eighth - lowest_eighth : format_of(type).highest - format_of(type).lowest;
  SPECDEC_INLINE void start_block() {}
  SPECDEC_INLINE Codes codes(int four, int v) const {
    return load_codes(codes_ + four * 4 * tile_rows + v * vector_bytes);
  }
  SPECDEC_INLINE Floats scale(int group, int v) const {
    return load_floats(scale_ + group * tile_rows + v * vector_rows);
  }
  SPECDEC_INLINE Floats offset(int group, int v) const {
    return load_floats(offset_ + group * tile_rows + v * vector_rows);
  }
  SPECDEC_INLINE Ints scale_codes(int v) const { return load_ints(scale_codes_ + v * vector_rows); }
  SPECDEC_INLINE Ints start(const PanelBlock& x, int group, int) const { return correction<type>(x, group); }
  SPECDEC_INLINE void next_part() {
    codes_ += block_size * tile_rows;
    scale_ += scales_of_part<type> * tile_rows;
    offset_ += groups_of_part<type> * tile_rows;
    scale_codes_ += tile_rows;
  }
  SPECDEC_INLINE void next_block() {}
  SPECDEC_INLINE DecodedWeights for_turn(int, int, std::int64_t) const { return *this; }
  SPECDEC_INLINE void fetch_ahead() {}

 private:
  const std::uint8_t* codes_;
  const float *scale_, *offset_;
  const std::int32_t* scale_codes_;
};

// The same after fold_tile(): codes times scale codes, as of a type with groups of 32.
template <Type type>
class FoldedWeights : public DecodedWeights<type> {
 public:
  using DecodedWeights<type>::DecodedWeights;
  static constexpr int group_size = block_size;
  static constexpr bool scales_integers = false;
  SPECDEC_INLINE Ints start(const PanelBlock& x, int, int) const {
    return broadcast_ints(lowest_folded(type) != 0 ? x.corrections[0] : 0);
  }
  SPECDEC_INLINE FoldedWeights for_turn(int, int, std::int64_t) const { return *this; }
};

// Weights of a tile of tiles.h, decoded in registers.
template <Type type>
class TileWeights {
 public:
  explicit TileWeights(const std::uint8_t* tile) : block_(tile) {}
  static constexpr int parts = format_of(type).columns / block_size, group_size = format_of(type).group;
  static constexpr bool scales_integers = adds_groups(type);
  static constexpr int factor = has_eighths(type) && multiplies_sums ? 8 : 1;
  static constexpr int span = (format_of(type).highest - format_of(type).lowest) * (has_eighths(type) ? 8 / factor : 1);
  SPECDEC_INLINE void start_block() {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      if constexpr (has_bfloat_scales(type)) d_[v] = load_bfloats(block_ + 2 * vector_rows * v);
      else if constexpr (!has_group_halves(type)) d_[v] = in_units(load_halves(block_ + 2 * vector_rows * v));
      if constexpr (adds_offsets(type)) {
        m_[v] = in_units(load_halves(block_ + 2 * tile_rows + 2 * vector_rows * v));
        if constexpr (has_scale_codes(type)) m_[v] = negative(m_[v]);
      }
    }
    scales_ = has_group_halves(type) ? block_ : block_ + halves_bytes(type);
    codes_ = block_ + codes_at(type);
  }
  // Columns 4 four .. 4 four + 3 of 32; without the eighths.
  SPECDEC_INLINE Codes codes(int four, int v) const {
    if constexpr (has_eighths(type)) return stored_codes<(factor == 1 ? 3 : 0)>(four, v);
    else return finished<type>(stored_codes<format_of(type).step - 1>(four, v));  // a step of 2 is a bit
  }
  SPECDEC_INLINE Codes codes_with_eighths(int four, int v, Codes eighths) const {
    return finished<type>(either(stored_codes<3>(four, v), eighths));
  }
  SPECDEC_INLINE Codes eighths(int v) const { return as_codes(by_sign(offset_codes(0, v), 2 * 0x01010101, 0)); }
  SPECDEC_INLINE Floats scale(int group, int v) const {
    if constexpr (has_group_halves(type)) return load_halves(scales_ + 2 * (group * tile_rows + v * vector_rows));
    if constexpr (!has_scale_codes(type) || adds_groups(type)) return d_[v];
    return multiplied(d_[v], to_floats(load_bytes(scales_ + group * tile_rows + v * vector_rows)));
  }
  SPECDEC_INLINE Floats offset(int group, int v) const {
    if constexpr (!has_scale_codes(type)) return m_[v];
    return multiplied(m_[v], to_floats(load_bytes(offset_codes(group, v))));
  }
  SPECDEC_INLINE Ints scale_codes(int v) const {  // of both groups
    return load_pairs(scales_ + v * vector_rows);
  }
  SPECDEC_INLINE Ints start(const PanelBlock& x, int group, int v) const {
    if constexpr (!has_eighths(type)) return correction<type>(x, group);
    else return by_sign(offset_codes(0, v), x.corrections[1], x.corrections[0]);
  }
  SPECDEC_INLINE void next_part() {
    scales_ += groups_of_part<type> * tile_rows * (has_group_halves(type) ? 2 : 1);
    codes_ += codes_bytes(type);
  }
  SPECDEC_INLINE void next_block() { block_ += tile_block_bytes(type); }
  // The same weights for one of several turns over blocks32 blocks. Each turn prefetches its share of what comes next
  // into L2: the hardware prefetcher is too late, even for one column.
  SPECDEC_INLINE TileWeights for_turn(int turn, int turns, std::int64_t blocks32) const {
    TileWeights w = *this;
    w.ahead_ = block_ + prefetch_bytes + blocks32 * part_bytes * turn / turns;
    w.fetched_at_once_ = (part_bytes + turns - 1) / turns;
    return w;
  }
  SPECDEC_INLINE void fetch_ahead() {
    for (int line = 0; line < fetched_at_once_; line += 64) __builtin_prefetch(ahead_ + line, 0, 2);
    ahead_ += fetched_at_once_;
  }

 private:
  static constexpr int part_bytes = tile_block_bytes(type) / parts;
  SPECDEC_INLINE static Floats in_units(Floats v) {
    constexpr float unit = has_eighths(type) ? format_of(type).unit / 8 : format_of(type).unit;
    if constexpr (unit == 1.0f) return v;
    return multiplied(v, broadcast(unit));
  }
  template <int up>  // bits
  SPECDEC_INLINE Codes stored_codes(int four, int v) const {
    constexpr int low = low_bits(type), high = high_bits(type);
    const auto vector = [&](int i) { return load_codes(codes_ + i * 4 * tile_rows + v * vector_bytes); };
    if constexpr (low == 8) return vector(four);
    const Codes code = field(vector(four % low), low * (four / low) - up, ((1 << low) - 1) << up);
    if constexpr (high > 0)
      return either(code, field(vector(low + four % high), high * (four / high) - low, ((1 << high) - 1) << low));
    else return code;
  }
  SPECDEC_INLINE const std::uint8_t* offset_codes(int group, int v) const {
    return scales_ + (groups_of(type) + group) * tile_rows + v * vector_rows;
  }
  const std::uint8_t *block_, *scales_ = nullptr, *codes_ = nullptr, *ahead_ = nullptr;
  int fetched_at_once_ = 0;
  Floats d_[vectors] = {}, m_[vectors] = {};
};

// Adds to acc[c * 16 + row] the products of C columns over blocks32 blocks. x: in a panel group of `width` columns.
template <Type type, int C, class Weights>
void multiply_columns(Weights w, std::int64_t blocks32, const PanelBlock* x, std::int64_t width, float* sums) {
  constexpr int sums_of_part = Weights::scales_integers ? 1 : block_size / Weights::group_size,
                groups_of_sum = groups_of_part<type> / sums_of_part;
  Floats acc[C][vectors];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) acc[c][v] = load_floats(sums + c * tile_rows + v * vector_rows);
  }
  for (std::int64_t block = 0; block < blocks32; block += Weights::parts) {
    w.start_block();
    for (int part = 0; part < Weights::parts; ++part, x += width) {
      w.fetch_ahead();
#pragma GCC unroll 2
      for (int sum = 0; sum < sums_of_part; ++sum) {
        Ints exact[C][vectors];
        if constexpr (Weights::scales_integers) scaled_sums<type, C>(w, x, exact);
        else group_sums<type, C>(w, x, sum, exact);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
          const Floats weight_scale = w.scale(sum, v);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) {
            acc[c][v] = fused(to_floats(exact[c][v]), multiplied(weight_scale, broadcast(x[c].scale)), acc[c][v]);
          }
          if constexpr (adds_offsets(type)) {
#pragma GCC unroll 2
            for (int group = sum * groups_of_sum; group < (sum + 1) * groups_of_sum; ++group) {
              const Floats weight_offset = w.offset(group, v);
#pragma GCC unroll 8
              for (int c = 0; c < C; ++c) acc[c][v] = fused(weight_offset, broadcast(x[c].sums[group]), acc[c][v]);
            }
          }
        }
      }
      w.next_part();
    }
    w.next_block();
  }
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) store_floats(sums + c * tile_rows + v * vector_rows, acc[c][v]);
  }
}

// Blocks of a tile of tiles.h as bytes and floats, for many columns.
template <Type type>
void unpack_tile(const std::uint8_t* block, std::int64_t blocks32, DecodedTile& tile) {
  TileWeights<type> w = TileWeights<type>(block).for_turn(0, 1, blocks32);
  std::uint8_t* codes = &tile.codes[0][0][0];
  float *scale = tile.scale[0], *offset = tile.offset[0];
  std::int32_t* scale_codes = tile.scale_codes[0];
  for (std::int64_t done = 0; done < blocks32; done += w.parts) {
    w.start_block();
    for (int part = 0; part < w.parts; ++part) {
      w.fetch_ahead();
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        const int row = v * vector_rows;
#pragma GCC unroll 8
        for (int four = 0; four < 8; ++four) {
          std::uint8_t* to = codes + four * 4 * tile_rows + v * vector_bytes;
          if constexpr (has_eighths(type)) store_codes(to, w.codes_with_eighths(four, v, w.eighths(v)));
          else store_codes(to, w.codes(four, v));
        }
        if constexpr (adds_groups(type)) store_ints(scale_codes + row, w.scale_codes(v));
#pragma GCC unroll 2
        for (int sum = 0; sum < scales_of_part<type>; ++sum)
          store_floats(scale + sum * tile_rows + row, w.scale(sum, v));
        if constexpr (adds_offsets(type)) {
#pragma GCC unroll 2
          for (int group = 0; group < groups_of_part<type>; ++group)
            store_floats(offset + group * tile_rows + row, w.offset(group, v));
        }
      }
      codes += block_size * tile_rows;
      scale += scales_of_part<type> * tile_rows;
      offset += groups_of_part<type> * tile_rows;
      scale_codes += tile_rows;
      w.next_part();
    }
    w.next_block();
  }
}

template <Type type, int C = columns_at_once, class Weights>
void multiply_some(int columns, const Weights& w, std::int64_t blocks32, const PanelBlock* x, std::int64_t width,
                   float* acc) {
  if (columns == C) return multiply_columns<type, C>(w, blocks32, x, width, acc);
  if constexpr (C > 1) multiply_some<type, C - 1>(columns, w, blocks32, x, width, acc);
}

// Multiplies 16 rows by all columns. x: the panel from the first block on.
template <Type type, class Weights>
void multiply_tile(const Weights& w, std::int64_t first_block, std::int64_t blocks32, const PanelBlock* panel,
                   std::int64_t n, std::int64_t k, float* acc) {
  const int turns = static_cast<int>((n + columns_at_once - 1) / columns_at_once);
  int turn = 0;
  for (std::int64_t first = 0; first < n; first += panel_width) {
    const int width = static_cast<int>(n - first < panel_width ? n - first : panel_width);
    const PanelBlock* x = panel + panel_place(n, k, first, first_block);
    const int pieces = (width + columns_at_once - 1) / columns_at_once;  // as equal as possible
    for (int piece = 0; piece < pieces; ++piece) {
      const int begin = width * piece / pieces, end = width * (piece + 1) / pieces;
      multiply_some<type>(end - begin, w.for_turn(turn++, turns, blocks32), blocks32, x + begin, width,
                          acc + (first + begin) * tile_rows);
    }
  }
}

template <Type type>
void fold_tile(DecodedTile& tile, std::int64_t blocks32);

// Multiplies a decoded tile by all columns.
template <Type type>
void multiply_decoded(DecodedTile& tile, std::int64_t first_block, std::int64_t blocks32, const PanelBlock* panel,
                      std::int64_t n, std::int64_t k, float* acc) {
  if constexpr (folding_pays<type> != INT64_MAX) {
    if (n >= folding_pays<type>) {
      fold_tile<type>(tile, blocks32);
      return multiply_tile<type>(FoldedWeights<type>(tile), first_block, blocks32, panel, n, k, acc);
    }
  }
  multiply_tile<type>(DecodedWeights<type>(tile), first_block, blocks32, panel, n, k, acc);
}

// Storing a decoded tile pays with more columns than this, but never if codes are bytes already.
template <Type type>
constexpr bool is_slow_to_decode = high_bits(type) > 0 || (format_of(type).group < block_size && !adds_groups(type));
template <Type type>
constexpr std::int64_t columns_in_registers =
    low_bits(type) == 8
        ? INT64_MAX
        : (is_slow_to_decode<type> ? slow_repeats_in_registers : repeats_in_registers) * columns_at_once;

// Multiplies 16 rows of the file's layout, from `row` on, by all columns; `rows` of them exist.
template <Type type>
void multiply_rows(const Matrix& m, std::int64_t row, std::int64_t rows, const PanelBlock* panel, std::int64_t n,
                   DecodedTile& tile, std::uint8_t* padded, float* acc) {
  constexpr Format format = format_of(type);
  for (std::int64_t column = 0; column < m.k; column += tile_columns) {
    const std::int64_t columns = m.k - column < tile_columns ? m.k - column : tile_columns,
                       blocks = columns / format.columns;
    const std::uint8_t* w = m.weights + row * m.row_bytes + column / format.columns * format.bytes;
    const std::uint8_t* ahead =
        m.weights + (row + tile_rows) * m.row_bytes + tile_rows * (column / format.columns) * format.bytes;
    std::int64_t row_bytes = m.row_bytes;
    if (rows < tile_rows) {  // zeros after the last row
      const std::int64_t bytes = blocks * format.bytes;
      for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(padded + r * bytes, w + r * row_bytes, idx(bytes));
      __builtin_memset(padded + rows * bytes, 0, idx((tile_rows - rows) * bytes));
      w = padded;
      row_bytes = bytes;
    }
    decode_tile<type>(w, row_bytes, blocks, ahead, tile);
    multiply_decoded<type>(tile, column / block_size, columns / block_size, panel, n, m.k, acc);
  }
}

// Multiplies a tile of tiles.h, decoded in registers, by all columns, in chunks that stay in L1 for every turn.
template <Type type>
void multiply_packed(const std::uint8_t* block, const PanelBlock* panel, std::int64_t n, std::int64_t k, float* acc) {
  for (std::int64_t column = 0; column < k; column += tile_columns) {
    const std::int64_t columns = k - column < tile_columns ? k - column : tile_columns;
    const TileWeights<type> w(block + column / format_of(type).columns * tile_block_bytes(type));
    multiply_tile<type>(w, column / block_size, columns / block_size, panel, n, k, acc);
  }
}

// Multiplies a tile of tiles.h by many columns.
template <Type type>
void multiply_unpacked(const std::uint8_t* block, const PanelBlock* panel, std::int64_t n, std::int64_t k,
                       DecodedTile& tile, float* acc) {
  constexpr int columns_of_block = format_of(type).columns;
  for (std::int64_t column = 0; column < k; column += tile_columns) {
    const std::int64_t columns = k - column < tile_columns ? k - column : tile_columns;
    unpack_tile<type>(block + column / columns_of_block * tile_block_bytes(type), columns / block_size, tile);
    multiply_decoded<type>(tile, column / block_size, columns / block_size, panel, n, k, acc);
  }
}

template <Type type>
void multiply(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
              float* out, std::int64_t ldo, void* scratch) {
  DecodedTile& tile = *static_cast<DecodedTile*>(scratch);
  std::uint8_t* padded = reinterpret_cast<std::uint8_t*>(&tile + 1);
  float* acc = reinterpret_cast<float*>(padded + padded_bytes);
  const bool streams = n * ldo >= streamed_outputs;
  for (std::int64_t row = row_begin; row < row_end; row += tile_rows) {
    const std::int64_t rows = row_end - row < tile_rows ? row_end - row : tile_rows;
    __builtin_memset(acc, 0, idx(n * tile_rows) * sizeof(float));
    if (m.tiles == nullptr) {
      multiply_rows<type>(m, row, rows, panel, n, tile, padded, acc);
    } else {
      const std::uint8_t* own = m.tiles + row / tile_rows * tile_bytes(type, m.k);
      if (n <= columns_in_registers<type>) multiply_packed<type>(own, panel, n, m.k, acc);
      else multiply_unpacked<type>(own, panel, n, m.k, tile, acc);
    }
    for (std::int64_t c = 0; c < n; ++c) {
      float* to = out + c * ldo + (row - row_begin);
      const float* from = acc + c * tile_rows;
      if (rows < tile_rows) __builtin_memcpy(to, from, idx(rows) * sizeof(float));
      else if (streams && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) stream_row(to, from);
      else __builtin_memcpy(to, from, tile_rows * sizeof(float));
    }
  }
  if (streams) finish_streams();
}

template <int first>
void multiply_type(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin,
                   std::int64_t row_end, float* out, std::int64_t ldo, void* scratch) {
  constexpr Type type = block_types.types[first];
  if (m.type == type) multiply<type>(m, panel, n, row_begin, row_end, out, ldo, scratch);
  else if constexpr (first + 1 < num_types)
    multiply_type<first + 1>(m, panel, n, row_begin, row_end, out, ldo, scratch);
}

void matmul(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
            float* out, std::int64_t ldo, void* scratch) noexcept {
  multiply_type<0>(m, panel, n, row_begin, row_end, out, ldo, scratch);
}
