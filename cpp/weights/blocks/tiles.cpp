#include "weights/blocks/tiles.h"

#include <cstring>
#include <utility>

#include "base/index.h"
#include "weights/blocks/layouts.h"

namespace specdec::blocks {
namespace {

// The codes of 32 columns of 16 rows; four columns of a row are the bytes of a word. Compilers vectorize operations on
// words.
struct Words {
  std::uint32_t word[8][tile_rows];
};

// A mask of the same bits in every byte.
constexpr std::uint32_t bytes(int mask) { return static_cast<std::uint32_t>(mask) * 0x01010101u; }

// Bits `taken` and up of every code, `bits` of them, into a plane of as many vectors.
template <int taken, int bits>
void write_plane(const Words& codes, std::uint8_t* plane) {
  std::uint32_t fields[bits][tile_rows] = {};
  // A function, because gcc 12 with the undefined behaviour sanitizer loses `row` in an unrolled loop.
  const auto add = [](const std::uint32_t* words, int shift, std::uint32_t* field) {
    for (int row = 0; row < tile_rows; ++row) field[row] |= (words[row] >> taken & bytes((1 << bits) - 1)) << shift;
  };
#pragma GCC unroll 8
  for (int four = 0; four < 8; ++four) add(codes.word[four], bits * (four / bits), fields[four % bits]);
  std::memcpy(plane, fields, sizeof fields);
}

void add_plane(const std::uint8_t* plane, int row, int taken, int bits, Stored32& w) {
  for (int four = 0; bits > 0 && four < 8; ++four) {
    const std::uint8_t* from = plane + (four % bits * tile_rows + row) * 4;
    for (int i = 0; i < 4; ++i) {
      const int field = from[i] >> (bits * (four / bits)) & ((1 << bits) - 1);
      w.code[4 * four + i] = static_cast<std::uint8_t>(w.code[4 * four + i] | field << taken);
    }
  }
}

template <Type type>
void write_tile_of(const std::uint8_t* weights, std::int64_t row_bytes, int rows, std::int64_t k, std::uint8_t* tile) {
  constexpr Format format = format_of(type);
  constexpr int parts = format.columns / 32, groups = 32 / format.group;
  if (rows < tile_rows) std::memset(tile, 0, idx(tile_bytes(type, k)));
  for (std::int64_t b = 0; b < k / format.columns; ++b, tile += tile_block_bytes(type)) {
    for (int part = 0; part < parts; ++part) {
      Words codes{};
      for (int row = 0; row < rows; ++row) {
        const Stored32 w = stored_in_file(type, weights + row * row_bytes + b * format.bytes, part);
        for (int four = 0; four < 8; ++four) std::memcpy(&codes.word[four][row], w.code + 4 * four, 4);
        if constexpr (has_group_halves(type)) {
          for (int g = 0; g < groups; ++g)
            std::memcpy(tile + 2 * ((part * groups + g) * tile_rows + row), &w.d[g], sizeof w.d[g]);
        } else {
          std::memcpy(tile + 2 * row, w.d, sizeof w.d[0]);
        }
        if constexpr (format.offsets) std::memcpy(tile + 2 * tile_rows + 2 * row, &w.m, sizeof w.m);
        if constexpr (has_scale_codes(type)) {
          for (int g = 0; g < groups; ++g) {
            std::uint8_t* scale = tile + halves_bytes(type) + (part * groups + g) * tile_rows + row;
            *scale = static_cast<std::uint8_t>(w.scale_code[g]);
            if constexpr (format.offsets)
              scale[groups_of(type) * tile_rows] = static_cast<std::uint8_t>(w.offset_code[g]);
          }
        }
      }
      std::uint8_t* planes = tile + codes_at(type) + part * codes_bytes(type);
      write_plane<0, low_bits(type)>(codes, planes);
      if constexpr (high_bits(type) > 0)
        write_plane<low_bits(type), high_bits(type)>(codes, planes + 64 * low_bits(type));
    }
  }
}

using WriteTile = void (*)(const std::uint8_t* weights, std::int64_t row_bytes, int rows, std::int64_t k,
                           std::uint8_t* tile);

template <int... places>
WriteTile by_type(Type type, std::integer_sequence<int, places...>) {
  WriteTile found = nullptr;
  ((block_types.types[places] == type ? void(found = write_tile_of<block_types.types[places]>) : void()), ...);
  return found;
}

}  // namespace

void write_tile(Type type, const std::uint8_t* weights, std::int64_t row_bytes, int rows, std::int64_t k,
                std::uint8_t* tile) noexcept {
  by_type(type, std::make_integer_sequence<int, num_types>())(weights, row_bytes, rows, k, tile);
}

Stored32 stored_in_tile(Type type, const std::uint8_t* block, int row, int part) noexcept {
  const Format& format = format_of(type);
  Stored32 w{};
  if (format.offsets) std::memcpy(&w.m, block + 2 * tile_rows + 2 * row, sizeof w.m);
  for (int half = 0; half < 2; ++half) {
    const int group = (32 * part + 16 * half) / format.group;
    const int of_group = has_group_halves(type) ? group * tile_rows : 0;
    std::memcpy(&w.d[half], block + 2 * (of_group + row), sizeof w.d[half]);
    const std::uint8_t* scale = block + halves_bytes(type) + group * tile_rows + row;
    w.scale_code[half] = has_scale_codes(type) ? static_cast<std::int8_t>(*scale) : std::int8_t{1};
    w.offset_code[half] = !format.offsets         ? std::int8_t{0}
                          : has_scale_codes(type) ? static_cast<std::int8_t>(scale[groups_of(type) * tile_rows])
                                                  : std::int8_t{-1};
  }
  const std::uint8_t* planes = block + codes_at(type) + part * codes_bytes(type);
  add_plane(planes, row, 0, low_bits(type), w);
  add_plane(planes + 64 * low_bits(type), row, low_bits(type), high_bits(type), w);
  return w;
}

}  // namespace specdec::blocks
