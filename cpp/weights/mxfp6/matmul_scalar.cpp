// Scalar kernels: the definition in matmul.h as plain code, for CPUs without any of the other kernels and as the
// reference in tests.
#include "weights/mxfp6/matmul.h"

namespace specdec::mxfp6 {
namespace {

float float_of(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

float weight_scale(const std::uint8_t* tile, int row) {
  return float_of(static_cast<std::uint32_t>(tile[tile_code_bytes + row]) << 23);
}

void quantize(const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
              std::int64_t block_end, void* panel) noexcept {
  char* base = static_cast<char*>(panel);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    const PanelBlock at = panel_block(n, k, column, block);
    std::int8_t codes[block_size];
    const float scale = round_block(x + block * block_size, codes);
    std::int32_t sum = 0;
    for (const std::int8_t code : codes) sum += code;
    __builtin_memcpy(base + at.codes, codes, sizeof codes);
    store_numbers(scale, sum, at, base);
  }
}

struct DecodedTile {
  std::int8_t multiple[tile_rows][tile_columns];
  float scale[tile_rows];
};

void decode_tile(const std::uint8_t* tile, DecodedTile& decoded) {
  std::int8_t multiples[num_codes];
  for (int code = 0; code < num_codes; ++code) multiples[code] = static_cast<std::int8_t>(code_multiple(code));
  for (int row = 0; row < tile_rows; ++row) {
    decoded.scale[row] = weight_scale(tile, row);
    for (int column = 0; column < tile_columns; ++column)
      decoded.multiple[row][column] = multiples[tile_code(tile, row, column)];
  }
}

float block_sum(const std::int8_t* w, const char* codes) {
  std::int32_t sum = 0;
  for (int i = 0; i < block_size; ++i) sum += w[i] * static_cast<std::int8_t>(codes[i]);
  return static_cast<float>(sum);
}

void matmul(const std::uint8_t* tiles, std::int64_t k, const void* panel, std::int64_t n, std::int64_t band_begin,
            std::int64_t band_end, float* out, std::int64_t ldo, void*) noexcept {
  const char* base = static_cast<const char*>(panel);
  const std::int64_t blocks = k / block_size;
  DecodedTile tile;
  for (std::int64_t band = band_begin; band < band_end; ++band) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      decode_tile(tiles + (band * blocks + block) * tile_bytes, tile);
      for (std::int64_t column = 0; column < n; ++column) {
        const PanelBlock at = panel_block(n, k, column, block);
        float scale;
        __builtin_memcpy(&scale, base + at.scale, sizeof scale);
        float* y = out + column * ldo + (band - band_begin) * tile_rows;
        for (int row = 0; row < tile_rows; ++row) {
          const float before = block == 0 ? 0.0f : y[row];
          y[row] = __builtin_fmaf(block_sum(tile.multiple[row], base + at.codes), tile.scale[row] * scale, before);
        }
      }
    }
  }
}

}  // namespace

extern const Kernels kernels_scalar = {"scalar", 0, quantize, matmul};

}  // namespace specdec::mxfp6
