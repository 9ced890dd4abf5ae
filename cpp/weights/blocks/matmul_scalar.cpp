// Decodes and multiplies one number at a time: the reference for the other kernels, and the fallback for CPUs without
// one.
#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

int dot(const std::int8_t* w, const std::int8_t* x, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += w[i] * x[i];
  return sum;
}

// acc + the products of 32 columns.
float add_products(Type type, const Stored32& numbers, const Weights32& w, const PanelBlock& x, float acc) {
  const Format& format = format_of(type);
  const auto sum = [&](int group) {
    return dot(w.code + group * format.group, x.codes + group * format.group, format.group);
  };
  if (adds_groups(type)) {
    const int integer = numbers.scale_code[0] * sum(0) + numbers.scale_code[1] * sum(1);
    acc = __builtin_fmaf(static_cast<float>(integer), unit_scale(type, numbers, 0) * x.scale, acc);
  } else if (has_eighths(type)) {
    int sum_of_x = 0;
    for (const std::int8_t code : x.codes) sum_of_x += code;
    const int integer = 8 * sum(0) + (numbers.offset_code[0] < 0 ? sum_of_x : -sum_of_x);
    acc = __builtin_fmaf(static_cast<float>(integer), w.scale[0] / 8 * x.scale, acc);
  }
  for (int group = 0; group < block_size / format.group; ++group) {
    if (!adds_groups(type) && !has_eighths(type))
      acc = __builtin_fmaf(static_cast<float>(sum(group)), w.scale[group] * x.scale, acc);
    if (adds_offsets(type)) acc = __builtin_fmaf(w.offset[group], x.sums[group], acc);
  }
  return acc;
}

void matmul(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end,
            float* out, std::int64_t ldo, void*) noexcept {
  const Format& format = format_of(m.type);
  const std::int64_t blocks = m.k / block_size;
  const int parts = format.columns / block_size;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const std::uint8_t* weights = m.weights + row * m.row_bytes;
    const std::uint8_t* tile = m.tiles == nullptr ? nullptr : m.tiles + row / tile_rows * tile_bytes(m.type, m.k);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t at = block / parts;
      const int part = static_cast<int>(block % parts), row_of_tile = static_cast<int>(row % tile_rows);
      const Stored32 numbers = m.tiles == nullptr
                                   ? stored(m.type, weights + at * format.bytes, part)
                                   : stored_in_tile(m.type, tile + at * tile_block_bytes(m.type), row_of_tile, part);
      const Weights32 w = decode(m.type, numbers);
      for (std::int64_t c = 0; c < n; ++c) {
        const PanelBlock& x = panel[panel_place(n, m.k, c, block)];
        float& y = out[c * ldo + row - row_begin];
        y = add_products(m.type, numbers, w, x, block == 0 ? 0.0f : y);
      }
    }
  }
}

}  // namespace

void pack_scalar(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column,
                 std::int64_t block_begin, std::int64_t block_end, PanelBlock* panel) noexcept {
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    PanelBlock& to = panel[panel_place(n, k, column, block)];
    const float scale = round_block(x + block * block_size, to.codes);
    std::int32_t half_sums[2] = {0, 0};
    for (int i = 0; i < block_size; ++i) half_sums[i / (block_size / 2)] += to.codes[i];
    store_numbers(type, scale, half_sums, to);
  }
}

const Kernels kernels_scalar = {"scalar", 0, pack_scalar, matmul};

}  // namespace specdec::blocks
