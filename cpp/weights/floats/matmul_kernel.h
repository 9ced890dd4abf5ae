// The algorithm, for any vector of `width` floats; included by one file per instruction set, which defines in an
// anonymous namespace
//   Vector, width, zero, load (f32), load_f16, load_bf16 (`width` weights as f32), fused (a * b + c),
//   Sum: a sum of sixteen lanes in vectors; store_totals(a, b, c, d, out): four of them, folded by halves,
//   tile_columns: the most columns of a tile, at most 8, and rows_at_once(columns): tiles that fit the registers.
// Everything here has internal linkage, so that the linker cannot share it between instruction sets.

// Keeps gcc from loading a vector again for every multiply-add that uses it: loads would become the bottleneck.
inline Vector in_register(Vector v) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (width > 1) __asm__("" : "+v"(v));
#endif
  return v;
}

constexpr int weight_bytes(Type type) { return type == Type::f32 ? 4 : 2; }

template <Type type>
inline Vector load_weights(const char* w) {
  if constexpr (type == Type::f16) return load_f16(reinterpret_cast<const std::uint16_t*>(w));
  if constexpr (type == Type::bf16) return load_bf16(reinterpret_cast<const std::uint16_t*>(w));
  if constexpr (type == Type::f32) return in_register(load(reinterpret_cast<const float*>(w)));
}

// Adds the products of one block (16 weights) of `rows` rows with the same block of `columns` columns.
template <Type type, int rows, int columns>
inline __attribute__((always_inline)) void add_block(const char* w, std::int64_t row_bytes, const float* x,
                                                     Sum (&sums)[rows][columns]) {
#pragma GCC unroll 16
  for (int part = 0; part < lanes / width; ++part, w += width * weight_bytes(type), x += width) {
    if constexpr (rows <= columns) {  // the operand with fewer vectors stays in registers
      Vector left[rows];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) left[r] = load_weights<type>(w + r * row_bytes);
#pragma GCC unroll 8
      for (int c = 0; c < columns; ++c) {
        const Vector right = in_register(load(x + c * lanes));
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) sums[r][c].part[part] = fused(left[r], right, sums[r][c].part[part]);
      }
    } else {
      Vector right[columns];
#pragma GCC unroll 8
      for (int c = 0; c < columns; ++c) right[c] = in_register(load(x + c * lanes));
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const Vector left = load_weights<type>(w + r * row_bytes);
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) sums[r][c].part[part] = fused(left, right[c], sums[r][c].part[part]);
      }
    }
  }
}

// x: a group of the panel, [blocks][columns][16].
template <Type type, int rows, int columns>
void multiply_tile(const Matrix& m, std::int64_t row, const float* x, float* out, std::int64_t ldo) {
  constexpr int block_bytes = lanes * weight_bytes(type), line = 64, line_weights = line / weight_bytes(type);
  Sum sums[rows][columns];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < columns; ++c) {
#pragma GCC unroll 16
      for (Vector& part : sums[r][c].part) part = zero();
    }
  }
  const char* w = static_cast<const char*>(m.weights) + row * m.row_bytes;
  const std::int64_t row_bytes = m.row_bytes;
  constexpr int stride = columns * lanes;
  // Prefetch distance: 6 KiB ahead for a single row; with several, the same place in the next rows. The target is L2,
  // because in L1 the weights would evict the activations.
  const std::int64_t ahead = rows == 1 ? 6 << 10 : rows * row_bytes;
  std::int64_t left = m.k;
  for (; left >= line_weights; left -= line_weights) {
    for (int r = 0; r < rows; ++r) __builtin_prefetch(w + ahead + r * row_bytes, 0, 2);
    for (int i = 0; i < line / block_bytes; ++i, w += block_bytes, x += stride)
      add_block<type, rows, columns>(w, row_bytes, x, sums);
  }
  for (; left >= lanes; left -= lanes, w += block_bytes, x += stride)
    add_block<type, rows, columns>(w, row_bytes, x, sums);
  if (left > 0) {  // zeros after the last weight
    char last[rows][block_bytes] = {};
    for (int r = 0; r < rows; ++r) __builtin_memcpy(last[r], w + r * row_bytes, idx(left * weight_bytes(type)));
    add_block<type, rows, columns>(last[0], block_bytes, x, sums);
  }

  constexpr int count = rows * columns;
  float totals[(count + 3) / 4 * 4];
  const auto sum = [&](int i) -> const Sum& { return sums[i % rows][i < count ? i / rows : 0]; };
#pragma GCC unroll 8
  for (int i = 0; i < count; i += 4) store_totals(sum(i), sum(i + 1), sum(i + 2), sum(i + 3), totals + i);
  for (int c = 0; c < columns; ++c) __builtin_memcpy(out + c * ldo, totals + c * rows, sizeof(float) * rows);
}

// For one column, multiplying row by row suits the hardware prefetcher best, as long as the column stays in L1. Short
// rows belong to small models, whose weights are in the caches; there several rows at a time are faster.
constexpr bool one_by_one(int columns, std::int64_t k) { return columns == 1 && k >= 512 && k <= 4096; }

template <Type type, int columns>
void multiply_rows(const Matrix& m, std::int64_t row, std::int64_t end, const float* x, float* out, std::int64_t ldo) {
  constexpr int rows = rows_at_once(columns);
  static_assert(tile_rows % rows == 0);
  for (; row + rows <= end && !one_by_one(columns, m.k); row += rows, out += rows) {
    multiply_tile<type, rows, columns>(m, row, x, out, ldo);
  }
  for (; row < end; ++row, ++out) multiply_tile<type, 1, columns>(m, row, x, out, ldo);
}

using MultiplyRows = void (*)(const Matrix&, std::int64_t, std::int64_t, const float*, float*, std::int64_t);

template <Type type, int columns>
constexpr MultiplyRows for_columns() {
  if constexpr (columns <= tile_columns) return multiply_rows<type, columns>;
  else return nullptr;
}

template <Type type>
void multiply(const Matrix& m, const float* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
              float* out, std::int64_t ldo) {
  constexpr MultiplyRows by_columns[] = {for_columns<type, 1>(), for_columns<type, 2>(), for_columns<type, 3>(),
                                         for_columns<type, 4>(), for_columns<type, 5>(), for_columns<type, 6>(),
                                         for_columns<type, 7>(), for_columns<type, 8>()};
  const Groups groups(n, tile_columns);
  const std::int64_t tiles = band_bytes / (tile_rows * m.k * weight_bytes(type) + 1);
  const std::int64_t band = groups.count <= 1 ? row_end - row_begin : tile_rows * (tiles < 1 ? 1 : tiles);
  for (std::int64_t row = row_begin; row < row_end; row += band) {
    const std::int64_t end = row_end - row < band ? row_end : row + band;
    for (std::int64_t group = 0; group < groups.count; ++group) {
      const std::int64_t first = groups.first(group), columns = groups.first(group + 1) - first;
      by_columns[columns - 1](m, row, end, panel + first * num_blocks(m.k) * lanes,
                              out + first * ldo + (row - row_begin), ldo);
    }
  }
}

void matmul(const Matrix& m, const float* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
            float* out, std::int64_t ldo) noexcept {
  switch (m.type) {
    case Type::f16:
      return multiply<Type::f16>(m, panel, n, row_begin, row_end, out, ldo);
    case Type::bf16:
      return multiply<Type::bf16>(m, panel, n, row_begin, row_end, out, ldo);
    case Type::f32:
      return multiply<Type::f32>(m, panel, n, row_begin, row_end, out, ldo);
  }
}
