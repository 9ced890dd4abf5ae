// The loops over rows, tiles and columns; included by one file per instruction set, which defines in an anonymous namespace
//   columns_at_once                     the most columns that multiply_columns takes, a divisor of panel_width
//   decode_tile<type>(w, row_bytes, blocks, ahead, tile)      16 rows of `blocks` blocks of the type; as many bytes from `ahead` on
//                                                             are read next and may be fetched
//   multiply_columns<type, C>(tile, blocks32, x, width, acc)  acc[c * 16 + row] of C columns, goes on from what it holds;
//                                                             x: of a panel group of `width` columns
// Everything here has internal linkage, so that no linker can share it between instruction sets.

template <Type type, int C = columns_at_once>
void multiply_some(int columns, const Tile& tile, std::int64_t blocks32, const PanelBlock* x, std::int64_t width, float* acc) {
  if (columns == C) return multiply_columns<type, C>(tile, blocks32, x, width, acc);
  if constexpr (C > 1) multiply_some<type, C - 1>(columns, tile, blocks32, x, width, acc);
}

// The tile times all columns; x: the panel from the tile's first block on.
template <Type type>
void multiply_tile(const Tile& tile, std::int64_t first_block, std::int64_t blocks32, const PanelBlock* panel, std::int64_t n,
                   std::int64_t k, float* acc) {
  for (std::int64_t first = 0; first < n; first += panel_width) {
    const int width = static_cast<int>(n - first < panel_width ? n - first : panel_width);
    const PanelBlock* x = panel + panel_place(n, k, first, first_block);
    const int pieces = (width + columns_at_once - 1) / columns_at_once;  // as equal as may be
    for (int piece = 0; piece < pieces; ++piece) {
      const int begin = width * piece / pieces, end = width * (piece + 1) / pieces;
      multiply_some<type>(end - begin, tile, blocks32, x + begin, width, acc + (first + begin) * tile_rows);
    }
  }
}

template <Type type>
void multiply(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end, float* out,
              std::int64_t ldo, void* scratch) {
  constexpr Format format = format_of(type);
  Tile& tile = *static_cast<Tile*>(scratch);
  std::uint8_t* padded = reinterpret_cast<std::uint8_t*>(&tile + 1);
  float* acc = reinterpret_cast<float*>(padded + padded_bytes);
  for (std::int64_t row = row_begin; row < row_end; row += tile_rows) {
    const std::int64_t rows = row_end - row < tile_rows ? row_end - row : tile_rows;
    __builtin_memset(acc, 0, static_cast<std::size_t>(n * tile_rows) * sizeof(float));
    for (std::int64_t column = 0; column < m.k; column += tile_columns) {
      const std::int64_t columns = m.k - column < tile_columns ? m.k - column : tile_columns, blocks = columns / format.columns;
      const std::uint8_t* w = m.weights + row * m.row_bytes + column / format.columns * format.bytes;
      const std::uint8_t* ahead = m.weights + (row + tile_rows) * m.row_bytes + tile_rows * (column / format.columns) * format.bytes;
      std::int64_t row_bytes = m.row_bytes;
      if (rows < tile_rows) {  // zeros after the last row
        const std::int64_t bytes = blocks * format.bytes;
        for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(padded + r * bytes, w + r * row_bytes, static_cast<std::size_t>(bytes));
        __builtin_memset(padded + rows * bytes, 0, static_cast<std::size_t>((tile_rows - rows) * bytes));
        w = padded;
        row_bytes = bytes;
      }
      decode_tile<type>(w, row_bytes, blocks, ahead, tile);
      multiply_tile<type>(tile, column / block_size, columns / block_size, panel, n, m.k, acc);
    }
    for (std::int64_t c = 0; c < n; ++c) {
      __builtin_memcpy(out + c * ldo + row, acc + c * tile_rows, static_cast<std::size_t>(rows) * sizeof(float));
    }
  }
}

void matmul(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end, float* out,
            std::int64_t ldo, void* scratch) noexcept {
  using Multiply = void (*)(const Matrix&, const PanelBlock*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t, void*);
  constexpr Multiply by_type[num_types] = {multiply<Type::q4_0>, multiply<Type::q4_1>,   multiply<Type::q5_0>,   multiply<Type::q5_1>,
                                           multiply<Type::q8_0>, multiply<Type::iq4_nl>, multiply<Type::iq4_xs>, multiply<Type::q2_k>,
                                           multiply<Type::q3_k>, multiply<Type::q4_k>,   multiply<Type::q5_k>,   multiply<Type::q6_k>};
  by_type[static_cast<int>(m.type)](m, panel, n, row_begin, row_end, out, ldo, scratch);
}
