// Stock weights in tiles of 16 rows, in the order in which kernels multiply them; written once when a model is loaded.
// A file's rows must be transposed for every product; tiles are read sequentially. Products have the same bits.
//
// A tile holds 16 rows of k weights, block after block of the type's columns; missing rows of the last tile are zeros.
// A block:
//   d            16 F16, one per row (MXFP4: BF16; NVFP4: [group][16])
//   m            16 F16; types with offsets
//   scale codes  [group][16] int8;   blocks of 256 columns, but ternary ones
//   minima       [group][16] int8;   the same with offsets
//   codes        for every 32 columns, `bits` * 64 bytes
// Grids are decoded: such tiles have more bytes than the file (IQ1 and IQ2 1.3 to 2 times as many), but reading them is
// faster than looking up grids. Codes lie in planes of 8, 4, 2 or 1 bits: 5 bits are 4 and 1, 6 are 4 and 2, 3 are 2
// and 1, low bits first. A plane of f bits is [f][16][4] bytes: columns 4 i .. 4 i + 3 of a row are four neighbouring
// bytes of vector i % f, in their bits f * (i / f) and up.
#pragma once

#include <cstdint>

#include "weights/blocks/format.h"

namespace specdec::blocks {

constexpr int tile_rows = 16;

// Raise this number whenever write_tile(), or round_rows() (draft_rounding.h) before it, changes its bytes: programs
// use tiles on disk that have their layout number (llama/tile_cache.h).
constexpr int tile_layout = 1;

static constexpr int low_bits(Type type) {
  return format_of(type).bits == 8 ? 8 : format_of(type).bits >= 4 ? 4 : format_of(type).bits >= 2 ? 2 : 1;
}
static constexpr int high_bits(Type type) { return format_of(type).bits - low_bits(type); }

// Bytes of the parts of a block of a tile.
static constexpr int groups_of(Type type) { return format_of(type).columns / format_of(type).group; }
static constexpr bool has_scale_codes(Type type) {
  return format_of(type).columns == 256 && type != Type::tq1_0 && type != Type::tq2_0;
}
static constexpr int halves_bytes(Type type) {
  return tile_rows * 2 * (has_group_halves(type) ? groups_of(type) : format_of(type).offsets ? 2 : 1);
}
static constexpr int scale_bytes(Type type) {
  return has_scale_codes(type) ? tile_rows * groups_of(type) * (format_of(type).offsets ? 2 : 1) : 0;
}
static constexpr int codes_at(Type type) { return halves_bytes(type) + scale_bytes(type); }
static constexpr int codes_bytes(Type type) { return format_of(type).bits * 64; }  // 32 columns
static constexpr int tile_block_bytes(Type type) {
  return codes_at(type) + format_of(type).columns / 32 * codes_bytes(type);
}

static constexpr std::int64_t tile_bytes(Type type, std::int64_t k) {
  return k / format_of(type).columns * tile_block_bytes(type);
}
static constexpr std::int64_t tiles_bytes(Type type, std::int64_t rows, std::int64_t k) {
  return (rows + tile_rows - 1) / tile_rows * tile_bytes(type, k);
}

// Writes a tile of `rows` <= 16 rows that lie row_bytes apart.
void write_tile(Type type, const std::uint8_t* weights, std::int64_t row_bytes, int rows, std::int64_t k,
                std::uint8_t* tile) noexcept;

// 32 columns of a row of a tile: part `part` of a block.
Stored32 stored_in_tile(Type type, const std::uint8_t* block, int row, int part) noexcept;

}  // namespace specdec::blocks
