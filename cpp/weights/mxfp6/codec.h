// MXFP6 quantization in scalar code: the reference for all kernels.
//
// Matrices are row-major; cols is a multiple of 32 and, where tiles are involved, rows a multiple of 16.
// codes uint8 [rows, cols] (one code per byte), scales uint8 [rows, cols / 32], tiles uint8 [rows / 16, cols / 32,
// 400].
#pragma once

#include <cstdint>

#include "weights/mxfp6/format.h"

namespace specdec::mxfp6 {

// How a block's scale is chosen from its largest magnitude a.
enum class ScaleRule : std::uint8_t {
  ocp,  // OCP MX v1.0: floor(log2(a)) - floor(log2(largest code))
  mse,  // the one of least squared error among that scale and its two neighbours; ties go to `ocp`
};

// Scale byte of a block of 32 finite values, 1..253; a block of zeros gets 127 (scale 1).
std::uint8_t block_scale(ScaleRule rule, const float* x) noexcept;

// Codes of 32 finite values under a given scale: to nearest even, saturating; minus zero keeps its sign.
void quantize_block(std::uint8_t scale, const float* x, std::uint8_t* codes) noexcept;

// f32 [rows, cols] -> codes, scales. Returns the index of the first value that is not finite, or -1;
// with such a value the outputs are unspecified.
std::int64_t quantize(ScaleRule rule, const float* x, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
                      std::uint8_t* scales) noexcept;

// f32 [rows, cols] -> tiles. Returns as quantize does.
std::int64_t quantize_tiles(ScaleRule rule, const float* x, std::int64_t rows, std::int64_t cols,
                            std::uint8_t* tiles) noexcept;

// codes, scales -> f32 [rows, cols]. Only the low 6 bits of a code count; scale 255 gives NaN.
void dequantize(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t cols,
                float* x) noexcept;

void pack(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows, std::int64_t cols,
          std::uint8_t* tiles) noexcept;
void unpack(const std::uint8_t* tiles, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
            std::uint8_t* scales) noexcept;

// One row of a tiled matrix -> f32 [cols].
void dequantize_row(const std::uint8_t* tiles, std::int64_t cols, std::int64_t row, float* x) noexcept;

// Index of the first tile with a scale outside 1..253, or -1.
std::int64_t find_invalid_scale(const std::uint8_t* tiles, std::int64_t num_tiles) noexcept;

}  // namespace specdec::mxfp6
